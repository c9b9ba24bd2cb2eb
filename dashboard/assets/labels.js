/* Marked runs, and what is written of a run: tags, a note, archived. */
(function () {
  "use strict";

  const KEY = "phasewatt-marked";
  const LABELS = "labels/";

  /* id → {name, begun} of the runs that are marked in this tab, on whatever page of the table. */
  function marked() {
    try { return JSON.parse(window.sessionStorage.getItem(KEY)) || {}; } catch (e) { return {}; }
  }

  function keep(runs) {
    try { window.sessionStorage.setItem(KEY, JSON.stringify(runs)); } catch (e) { /* private */ }
    show();
  }

  function base() {
    const home = document.querySelector(".top .mark");
    return home ? home.getAttribute("href").replace(/\/*$/, "/") : "/";
  }

  function set(node, name, value) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }

  /* The server knows nothing of marks: after each new table they are set again. */
  function show() {
    const runs = marked();
    const count = Object.keys(runs).length;
    document.querySelectorAll(".tick").forEach((tick) => {
      set(tick, "aria-checked", String(tick.dataset.run in runs));
    });
    document.querySelectorAll(".marked").forEach((bar) => {
      if (bar.hidden !== (count === 0)) bar.hidden = count === 0;
      const text = count + (count === 1 ? " run marked" : " runs marked");
      const label = bar.querySelector(".marked-count");
      if (label && label.textContent !== text) label.textContent = text;
      const compare = bar.querySelector("[data-do=compare]");
      if (compare) {
        compare.disabled = count < 2;
        set(compare, "title", count < 2 ? "mark two runs or more" : "");
      }
    });
  }

  /* The earliest run and others of its name are the base; each further name is one other side.
     Of one name alone the earliest is compared with each of the others. What did not finish comes
     last: it is left out with a line, and a base that is left out leaves nothing to compare. */
  function sides(runs) {
    const late = (id) => (runs[id].finished === false ? 1 : 0);
    const ids = Object.keys(runs).sort((a, b) => late(a) - late(b)
      || (runs[a].begun || a).localeCompare(runs[b].begun || b));
    const names = new Map();
    ids.forEach((id) => {
      const name = runs[id].name || id;
      names.set(name, [...(names.get(name) || []), id]);
    });
    return names.size > 1 ? [...names.values()].map((group) => group.join(","))
      : ids;
  }

  function compare() {
    const [first, ...others] = sides(marked());
    const asked = new URLSearchParams([["base", first], ...others.map((id) => ["other", id])]);
    window.location.assign(base() + "gains?" + asked);
  }

  /* Resolves with "" or a line that says why not. */
  async function write(id, change) {
    let answer;
    try {
      answer = await fetch(base() + LABELS + encodeURIComponent(id), {
        method: "POST", credentials: "same-origin",
        headers: { "Content-Type": "application/json" }, body: JSON.stringify(change),
      });
    } catch (error) {
      return "the server does not answer: is it still running?";
    }
    return answer.ok ? "" : (await answer.text()).trim().slice(0, 300);
  }

  function say(area, text, isWrong) {
    const said = area.querySelector(".said");
    if (!said) return;
    said.textContent = text;
    said.classList.toggle("wrong", Boolean(isWrong));
  }

  /* Ask for what is shown again. */
  function refresh() {
    const props = window.dash_clientside.set_props;
    if (document.getElementById("runs-table")) props("runs-tick", { n_intervals: Date.now() });
    if (document.getElementById("run-labels")) props("labels-written", { data: Date.now() });
  }

  async function change(area, ids, asked, done) {
    const buttons = area.querySelectorAll("button");
    buttons.forEach((one) => { one.disabled = true; });
    say(area, "");
    const wrong = [];
    for (const id of ids) {
      const why = await write(id, asked);
      if (why) wrong.push(ids.length > 1 ? id + ": " + why : why);
    }
    buttons.forEach((one) => { one.disabled = false; });
    const more = wrong.length - 3;
    say(area, wrong.length ? wrong.slice(0, 3).join("; ") + (more > 0 ? "; and " + more + " more" : "")
      : done || "", wrong.length > 0);
    show();
    if (!wrong.length) refresh();  // else what was typed stays
  }

  function tagIn(area) {
    const field = area.querySelector("input[type=text]");
    const tag = field ? field.value.trim() : "";
    if (!tag) { say(area, "write a tag first", true); if (field) field.focus(); }
    return tag;
  }

  function act(button) {
    const bar = button.closest(".marked");
    const one = button.closest(".labels");
    const area = bar || one;
    const ids = bar ? Object.keys(marked()) : [one.dataset.run];
    const what = button.dataset.do;
    if (what === "compare") { compare(); return; }
    if (what === "clear") { keep({}); return; }
    if (what === "archive" || what === "unarchive") {
      const archived = what === "archive";
      change(area, ids, { archived }, archived ? "archived" : "shown again");
    } else if (what === "tag" || what === "untag") {
      const tag = button.dataset.tag || tagIn(area);
      if (tag) change(area, ids, what === "tag" ? { add: [tag] } : { remove: [tag] }, "saved");
    } else if (what === "note") {
      const text = one.querySelector("textarea");
      change(area, ids, { note: text.value, note_before: one.querySelector(".labels-form").dataset.note || "" }, "saved");
    }
  }

  document.addEventListener("click", function (event) {
    const tick = event.target.closest(".tick");
    if (tick) {
      const runs = marked();
      if (tick.dataset.run in runs) delete runs[tick.dataset.run];
      else {
        const { name, begun, finished } = tick.dataset;
        runs[tick.dataset.run] = { name, begun, finished: finished === "yes" };
      }
      keep(runs);
      return;
    }
    const button = event.target.closest(".marked [data-do], .labels [data-do]");
    if (button) act(button);
  });

  /* Enter in the field of a tag adds it; / leads to the search. */
  document.addEventListener("keydown", function (event) {
    const field = event.target;
    if (event.key === "Enter" && field.matches && field.matches(".marked input, .labels input")) {
      const add = field.closest(".marked, .labels").querySelector("[data-do=tag]");
      if (add) { event.preventDefault(); act(add); }
    }
    const search = document.getElementById("runs-search");
    if (event.key === "/" && search && !/^(INPUT|TEXTAREA|SELECT)$/.test(field.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });

  new MutationObserver(show).observe(document.documentElement, { childList: true, subtree: true });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    labels: {
      /* The address follows what is shown, so that it can be shared; Dash need not hear of it. */
      address(asked) {
        const text = new URLSearchParams(asked || {}).toString();
        const url = window.location.pathname + (text ? "?" + text : "");
        if (url !== window.location.pathname + window.location.search) {
          window.history.replaceState(window.history.state, "", url);
        }
        return window.dash_clientside.no_update;
      },
    },
  });
})();
