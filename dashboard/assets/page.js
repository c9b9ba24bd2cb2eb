/* What a page does without asking the server: theme, image of a chart, zoom into the address. */
(function () {
  "use strict";

  function query() { return new URLSearchParams(window.location.search); }

  /* Where what is asked for is found: t, a part of the run, d, some of its devices, v, what was
     logged, and x, what that is drawn over. */
  const KEYS = ["t", "d", "v", "x"];

  function address(asked) {
    const now = query();
    for (const key of KEYS) {
      if (asked[key]) now.set(key, asked[key]); else now.delete(key);
    }
    const text = now.toString().replaceAll("%2C", ",");
    return window.location.pathname + (text ? "?" + text : "");
  }

  /* The address follows what is looked at. Dash does not hear of it, so nothing is drawn anew;
     going back does tell Dash, and the page is made from the address that it finds. */
  function remember(asked) {
    const url = address(asked);
    if (url !== window.location.pathname + window.location.search) {
      window.history.pushState({}, "", url);
    }
    document.querySelectorAll(".spans a").forEach((link) => {
      const of = kind(link);
      if (!of) return;
      if (of !== "d" && of !== "t" && !asked[of]) return;  // as the server drew it
      const on = of !== "d" ? link.dataset[of] === (asked[of] || "")
        : link.dataset.d ? devices(asked).includes(link.dataset.d) : !asked.d;
      link.classList.toggle("on", on);
      link.setAttribute("aria-current", on ? "true" : "false");
      link.setAttribute("href", address(choice(link, asked)));
    });
    return asked;
  }

  function kind(link) { return KEYS.find((key) => key in link.dataset); }

  function devices(asked) { return asked.d ? asked.d.split(",") : []; }

  /* What a link of the power chart asks for: a part of the run, or one device more or less. */
  function choice(link, before) {
    const asked = Object.assign({}, before);
    const of = kind(link);
    if (of !== "d") {
      asked[of] = link.dataset[of];
    } else if (!link.dataset.d) {
      delete asked.d;
    } else {
      const chosen = devices(before);
      asked.d = [...link.parentElement.querySelectorAll("a")].map((one) => one.dataset.d)
        .filter((one) => one && chosen.includes(one) !== (one === link.dataset.d)).join(",");
    }
    for (const key of KEYS) if (!asked[key]) delete asked[key];
    return asked;
  }

  function unit(figure) {
    const meta = figure && figure.layout && figure.layout.meta;
    return (meta && meta.unit_s) || 1;
  }

  /* To the microsecond, never with an exponent. */
  function fixed(value) { return value.toFixed(6).replace(/\.?0+$/, ""); }

  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { window.localStorage.setItem("phasewatt-theme", root.dataset.theme); } catch (e) { /**/ }
    return window.dash_clientside.no_update;
  }

  function zoomed(...given) {
    const nothing = window.dash_clientside.no_update;
    const before = given[given.length - 1] || {};
    const count = (given.length - 1) / 2;
    const trigger = window.dash_clientside.callback_context.triggered[0];
    if (!trigger || !trigger.value) return nothing;
    const view = JSON.parse(trigger.prop_id.slice(0, trigger.prop_id.lastIndexOf("."))).view;
    const views = window.dash_clientside.callback_context.inputs_list.slice(0, count)
      .map((one) => one.id.view);
    const figure = given[count + views.indexOf(view)];
    const event = trigger.value;
    const asked = Object.assign({}, before);
    if (event["xaxis.autorange"]) {
      if (!before.t) return nothing;
      delete asked.t;
    } else if ("xaxis.range[0]" in event) {
      const scale = unit(figure);
      const low = Math.max(0, event["xaxis.range[0]"] * scale);
      const high = Math.max(0, event["xaxis.range[1]"] * scale);
      if (!(high > low)) return nothing;
      asked.t = fixed(low) + "-" + fixed(high);
    } else {
      return nothing;
    }
    return remember(asked);
  }

  /* Once the browser has painted, as far as it paints at all: a hidden page does not. */
  function painted(value) {
    return new Promise((done) => {
      window.requestAnimationFrame(() => window.setTimeout(() => done(value)));
      window.setTimeout(() => done(value), 250);
    });
  }

  /* The first chart is there: now the rest, of the same part of the same run. Their requests would
     hold up the first chart, so it is painted before. */
  function later(_figure, run, asked, before) {
    const now = Object.assign({run}, asked || {});
    const part = (of) => JSON.stringify([of.run, of.t, of.d]);
    if (before && part(before) === part(now)) {
      return window.dash_clientside.no_update;
    }
    return painted(now);
  }

  /* What nobody sees is not drawn again, until it is scrolled to or the run has ended; what failed
     is tried again. The first charts follow the run by themselves. */
  const FIRST = ["phases", "power"];

  function slowly(_tick, ended, seen, ...before) {
    const outputs = window.dash_clientside.callback_context.outputs_list;
    return outputs.map((one, i) => {
      const view = one.id.view;
      const card = document.getElementById("title-" + view) || document.getElementById(view);
      const area = card && card.closest(".card");
      if (area && area.querySelector(".failed, .notice.bad")) return seen + " again " + Date.now();
      if (FIRST.includes(view)) return window.dash_clientside.no_update;
      const box = area && area.getBoundingClientRect();
      const visible = box && box.top < window.innerHeight && box.bottom > 0;
      return seen && seen !== before[i] && (visible || ended)
        ? seen : window.dash_clientside.no_update;
    });
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    phasewatt: { theme, zoomed, later, slowly },
  });

  /* For its first chart Dash would fetch the whole of plotly from the address that it sets here; a
     third of it draws all of our charts. */
  const PLOTLY = new URL("plotly-cartesian.min.js", document.currentScript.src).href;
  Object.defineProperty(window, "_dashPlotlyJSURL", { get: () => PLOTLY, set: () => {} });

  /* What is asked for stands in the address, so two clicks in quick succession both count. */
  document.addEventListener("click", function (event) {
    const link = event.target.closest(".spans a");
    if (!link || !kind(link) || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const now = query();
    const asked = choice(link, Object.fromEntries(
      KEYS.filter((key) => now.get(key)).map((key) => [key, now.get(key)])));
    window.dash_clientside.set_props("span", { data: remember(asked) });
  });

  /* An image of a chart, dark on white whatever the page looks like. */
  document.addEventListener("click", function (event) {
    const button = event.target.closest("button.link");
    const card = button && button.closest(".card");
    const plot = card && card.querySelector(".js-plotly-plot");
    if (!plot || !window.Plotly) return;
    const title = card.querySelector("h2").textContent.trim().replace(/[^\w.-]+/g, "-");
    window.Plotly.downloadImage(plot, {
      format: "png", scale: 2, filename: "phasewatt-" + title,
      width: Math.max(plot.clientWidth, 640), height: Math.max(plot.clientHeight, 200),
    });
  });
})();
