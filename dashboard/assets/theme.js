/* Light or dark: as the system says, until somebody chooses. */
(function () {
  let chosen = null;
  try { chosen = window.localStorage.getItem("phasewatt-theme"); } catch (error) { /* private */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
