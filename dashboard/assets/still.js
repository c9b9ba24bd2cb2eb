/* A snapshot: draws its figures, switches between variants, light or dark. Asks nobody. */
(function () {
  "use strict";

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true,
    doubleClick: "autosize" };

  function draw(place) {
    if (place.dataset.drawn || !place.offsetWidth) return;
    place.dataset.drawn = "yes";
    const figure = figures[Number(place.dataset.figure)];
    window.Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
  }

  function all() { document.querySelectorAll(".graph").forEach(draw); }

  document.addEventListener("click", function (event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark"
        : window.matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    } else if (button.dataset.variant) {
      const of = button.closest(".variants");
      of.querySelectorAll(":scope > .spans > button").forEach((one) => {
        one.setAttribute("aria-pressed", String(one === button));
      });
      of.querySelectorAll(":scope > .part").forEach((part) => {
        part.classList.toggle("away", part.dataset.variant !== button.dataset.variant);
      });
      all();
    }
  });
  document.addEventListener("toggle", all, true);
  all();
})();
