"""The dashboard as people see it: real runs, a real browser, every page."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.fakes.paced_run import report_of

from .conftest import Shown
from .page_checks import WATCH_SHIFTS, looks_right

pytestmark = pytest.mark.xdist_group("dashboard")  # one fixture of many trainings

ARTEFACTS = Path(__file__).with_name("screenshots")
PATIENCE_MS = 1000 * processes.HUNG_S
MOST_SHIFT = 0.05  # of the page's layout while it comes; Web Vitals calls 0.1 good
SERIOUS = ("serious", "critical")  # of what axe finds
PAGES = {
    "runs": "",
    "live": "run/{live}",
    "killed": "run/{killed}",
    "eight": "run/{eight}",
    "modules": "run/{modules}",
    "crew": "run/{crew}",
    "broken": "run/broken",
    "gains": "gains?base=plain&other=faster",
    "choose": "gains",
    "sensors": "sensors",
    "ranks": "ranks/{crew}",
    "no-such-run": "run/nothing",
    "nowhere": "nowhere",
}
LARGE = ("crew", "killed")  # "killed" is of the same parts as "eight": only in `make test-full`
OF_THE_SAME_PARTS = ("modules",)  # as "eight": axe looks at them in `make test-full`
# Where every rule of axe is looked at, and where only what lies on what, how faint, how wide.
APPEARANCES = [
    pytest.param([("light", 1280)], [("dark", 360)], id="usual"),
    pytest.param(
        [("dark", 1280), ("light", 360)],
        [("light", 1440), ("dark", 1440), ("light", 3840), ("dark", 3840)],
        id="variants",
        marks=pytest.mark.full,
    ),
]
READY = {
    "runs": "table.runs",
    "choose": ".notice",
    "gains": ".verdict",
    "sensors": "h2",
    "ranks": ".js-plotly-plot .main-svg",
    "no-such-run": ".notice.bad",
    "broken": ".notice.bad",
    "nowhere": "text=nothing at this address",
}


@contextmanager
def opened(
    browser: Any,
    shown: Shown,
    path: str,
    *,
    scheme: str = "light",
    width: int = 1280,
    height: int = 900,
) -> Iterator[Any]:
    """A page; nothing on it may complain, fail, or ask anybody else."""
    context = browser.new_context(
        color_scheme=scheme, accept_downloads=True, viewport={"width": width, "height": height}
    )
    page = context.new_page()
    page.add_init_script(WATCH_SHIFTS)
    page.set_default_timeout(PATIENCE_MS)
    trouble: list[str] = []
    page.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append("a dialog"))
    page.on(
        "response", lambda r: trouble.append(f"{r.status} {r.url}") if r.status >= 400 else None
    )
    page.on(
        "request",
        lambda r: (
            trouble.append(f"outside: {r.url}")
            if not r.url.startswith((shown.url, "data:", "blob:"))
            else None
        ),
    )
    try:
        page.goto(shown.url + path)
        yield page
    finally:
        context.close()  # a live page that stays open goes on drawing
    assert not trouble, trouble[:5]


def until(page: Any, expression: str, value: Any = None, seconds: float = processes.HUNG_S) -> None:
    """Wait for something to be true. (Playwright's own way needs eval, which our pages refuse.)"""
    function = expression if expression.startswith("(") else f"() => {expression}"
    deadline = time.monotonic() + seconds
    while not page.evaluate(function, value):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)


def settled(page: Any, name: str = "") -> None:
    """Until everything is drawn."""
    page.wait_for_selector(READY.get(name, ".js-plotly-plot .main-svg"))
    if name not in READY:
        page.wait_for_selector(".tile")
        until(
            page, "[...document.querySelectorAll('.card .caption')].every((one) => one.textContent)"
        )
    page.wait_for_timeout(400)


def scripts(page: Any, word: str) -> list[str]:
    """The names of the scripts with a word in them that the page has fetched."""
    names: list[str] = page.evaluate(
        "performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())"
    )
    return [name for name in names if word in name]


def series(page: Any, view: str) -> list[dict[str, Any]]:
    """The traces of a chart, as plotly has them."""
    return json.loads(
        page.evaluate(
            """(view) => {
            const plot = document.querySelector(`[id*='"view":"${view}"'] .js-plotly-plot`);
            return JSON.stringify(plot.data.map((one) => ({x: one.x, y: one.y, mode: one.mode})));
        }""",
            view,
        )
    )


def ranged(page: Any, view: str) -> list[float]:
    """The part of the run that a chart shows, once it has data: before that it shows −1 to 6."""
    page_range = """(view) => document.querySelector(`[id*='"view":"${view}"'] .js-plotly-plot`)
        ?._fullLayout?.xaxis.range"""
    until(page, f"(view) => (({page_range})(view) ?? [-1])[0] !== -1", view)
    return page.evaluate(page_range, view)


def await_range(page: Any, view: str, span: list[float]) -> None:
    """Wait until a chart shows this part of the run."""
    until(
        page,
        """([view, low, high]) => {
            const plot = document.querySelector(`[id*='"view":"${view}"'] .js-plotly-plot`);
            const range = plot?._fullLayout?.xaxis.range;
            return !!range && Math.abs(range[0] - low) < 0.05 && Math.abs(range[1] - high) < 0.05;
        }""",
        [view, *span],
    )


@pytest.mark.parametrize(("examined", "looked_at"), APPEARANCES)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in LARGE else n for n in PAGES]
)
def test_every_page_is_whole_for_everybody(
    name: str,
    examined: list[tuple[str, int]],
    looked_at: list[tuple[str, int]],
    browser: Any,
    shown: Shown,
) -> None:
    with opened(browser, shown, PAGES[name].format(**shown.runs)) as page:
        settled(page, name)
        ARTEFACTS.mkdir(exist_ok=True)
        assert page.locator("h1").count() == 1
        page.evaluate(axe())
        for scheme, width in (*examined, *looked_at):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(400)
            deadline = time.monotonic() + processes.HUNG_S  # charts follow the new width by and by
            while (wrong := looks_right(page)) and time.monotonic() < deadline:
                page.wait_for_timeout(200)
            if (scheme, width) in examined:  # a picture to look at takes most of a second
                page.screenshot(path=ARTEFACTS / f"{name}-{scheme}-{width}.png", full_page=True)
            assert wrong == [], (scheme, width)
            if (scheme, width) in looked_at or (name in OF_THE_SAME_PARTS and len(looked_at) == 1):
                continue
            result = page.evaluate("axe.run()")
            bad = [
                (violation["id"], violation["impact"], violation["nodes"][0]["html"][:200])
                for violation in result["violations"]
                if violation["impact"] in SERIOUS
            ]
            assert not bad, (scheme, width, bad)


@pytest.mark.full
@pytest.mark.parametrize("width", [360, 1440, 3840])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_not_jump_while_it_comes(
    name: str, width: int, browser: Any, shown: Shown
) -> None:
    path, scheme = PAGES[name].format(**shown.runs), "dark" if width == 1440 else "light"
    height = 2160 if width == 3840 else 900
    with opened(browser, shown, path, scheme=scheme, width=width, height=height) as page:
        settled(page, name)
        assert page.evaluate("window.shifted") <= MOST_SHIFT


def axe() -> str:
    import axe_core_python

    return next(Path(axe_core_python.__file__).parent.glob("axe*.js")).read_text(encoding="utf-8")


def test_a_zoom_is_an_address_and_going_back_undoes_it(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['plain']}") as page:
        settled(page)
        whole = ranged(page, "power")
        drag(page, "power", 0.3, 0.6)
        until(page, "location.search.startsWith('?t=')")
        low, high = map(float, re.findall(r"[\d.]+", page.url.split("t=")[1])[:2])
        assert whole[0] < low < high < whole[1]
        await_range(page, "memory", [low, high])
        await_range(page, "power", [low, high])
        page.reload()
        settled(page)
        await_range(page, "power", [low, high])
        page.go_back()
        until(page, "!location.search")
        settled(page)
        await_range(page, "power", whole)


# Whether these lines stand in the power chart.
DRAWN = """(names) => {
    const plot = document.querySelector(`[id*='"view":"power"'] .js-plotly-plot`);
    const isDevice = (one) => one.mode === "lines" && one.name && !/limit|model/.test(one.name);
    return !!plot && !!plot.data && plot.data.filter(isDevice)
        .map((one) => one.name).join() === names.join();
}"""


def drag(page: Any, view: str, begin: float, end_: float) -> None:
    area = page.locator(f'[id*=\'"view":"{view}"\'] .js-plotly-plot .nsewdrag').first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end_ * box["width"], y, steps=8)
    page.mouse.up()


@pytest.mark.full
def test_the_lower_charts_of_a_live_run_follow_it_too(browser: Any, shown: Shown) -> None:
    """Those that are seen, every few seconds."""
    with opened(browser, shown, f"run/{shown.runs['live']}") as page:
        settled(page)
        drawn = 'document.querySelector(`[id*=\'"view":"waste"\'] .js-plotly-plot`)'
        page.locator('[id*=\'"view":"waste"\'] .js-plotly-plot').scroll_into_view_if_needed()
        before = page.evaluate(f"JSON.stringify({drawn}.data)")
        until(page, f"(before) => JSON.stringify({drawn}.data) !== before", before)


def test_a_live_run_grows_without_being_drawn_anew(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['live']}") as page:
        settled(page)
        page.evaluate(
            'document.querySelector(`[id*=\'"view":"power"\'] .js-plotly-plot`)'
            ".dataset.mine = 'yes'"
        )
        before = last(page)
        until(
            page,
            '(x) => { const p = document.querySelector(`[id*=\'"view":"power"\'] '
            ".js-plotly-plot`); const xs = p.data.find((one) => one.mode === 'lines' && !one.fill)"
            ".x; return xs[xs.length - 1] > x + 3; }",
            before,
        )
        drag(page, "power", 0.2, 0.5)
        until(page, "location.search.startsWith('?t=')")
        page.wait_for_timeout(700)
        low, high = map(float, re.findall(r"[\d.]+", page.url.split("t=")[1])[:2])
        await_range(page, "power", [low, high])
        zoomed = ranged(page, "power")
        energy = page.locator(".tile dd").first.inner_text()
        until(page, "(before) => document.querySelector('.tile dd').innerText !== before", energy)
        page.wait_for_timeout(1000)
        assert ranged(page, "power") == pytest.approx(zoomed, abs=1e-6), "the zoom was lost"
        assert page.locator(".tile dd").first.inner_text() != energy, "the figures stand still"
        assert (
            page.evaluate(
                'document.querySelector(`[id*=\'"view":"power"\'] .js-plotly-plot`).dataset.mine'
            )
            == "yes"
        ), "it was drawn anew"


def last(page: Any) -> float:
    lines = [trace for trace in series(page, "power") if trace["mode"] == "lines"]
    return max(x for trace in lines for x in trace["x"] if x is not None)


def test_table_csv_and_image_of_a_chart(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['plain']}") as page:
        settled(page)
        card = page.locator("section.card", has=page.get_by_role("heading", name="Energy by phase"))
        with page.expect_download() as download:
            card.get_by_role("link", name="CSV").click()
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
        joules = {
            row["phase"]: float(row["energy_j"])
            for row in rows
            if row["device"] == "gpu0" and row["energy_j"]
        }
        report = report_of(shown.directory.parent, run=shown.runs["plain"])
        reported = {
            row["phase"]: row["energy_j"]
            for row in report["phases"]
            if row["device"] == "gpu0" and row["energy_j"]
        }
        assert {"forward", "backward"} <= joules.keys() and joules == pytest.approx(reported)
        with page.expect_download() as download:
            card.get_by_role("button", name="PNG").click()
        assert download.value.suggested_filename == "phasewatt-Energy-by-phase.png"
        assert Path(download.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        card.get_by_role("link", name="Table").click()
        page.wait_for_selector("td:has-text('backward')")
        assert page.get_by_role("link", name="CSV").is_visible()


def test_what_was_logged_is_drawn_over_joules(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['plain']}") as page:
        settled(page)
        card = page.locator(".of-logged")
        assert card.locator(".xtitle").text_content() == "optimizer step"
        page.evaluate("window.mine = true")
        card.get_by_role("link", name="J", exact=True).click()
        until(
            page, "/energy so far/.test(document.querySelector('.of-logged .xtitle').textContent)"
        )
        card.get_by_role("link", name="samples", exact=True).first.click()
        until(page, "document.querySelector('.of-logged .ytitle').textContent === 'samples'")
        assert page.evaluate("window.mine"), "the page was asked for again"
        assert "x=energy" in page.url and "v=samples" in page.url
        page.reload()
        settled(page)
        until(
            page, "/energy so far/.test(document.querySelector('.of-logged .xtitle').textContent)"
        )
        assert card.locator(".spans a.on").all_inner_texts() == ["samples", "J"]
        assert "backward" in page.locator(".of-burn .legendtext").all_text_contents()
        assert page.locator(".tips li").count() >= 1  # what to try
        page.get_by_text("Command, configuration, code").click()
        assert "train_for_browser.py" in page.locator("#run-origin").inner_text()
    with opened(browser, shown, f"run/{shown.runs['modules']}") as page:
        settled(page)
        ticks = (
            "[...document.querySelectorAll('.of-anatomy .ytick text')].map((n) => n.textContent)"
        )
        until(page, f"{ticks}.join() === 'step,phase,module'")


def test_a_snapshot_is_one_file_that_asks_nobody(
    browser: Any, shown: Shown, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    with opened(browser, shown, f"run/{shown.runs['plain']}") as page:
        settled(page)
        with page.expect_download() as download:
            page.get_by_role("link", name="Snapshot").click()
        download.value.save_as(file)
    assert file.stat().st_size < 5_000_000
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(message.text))
    page.on("pageerror", lambda error: asked.append(str(error)))
    page.goto(file.as_uri())
    until(page, "document.querySelectorAll('.graph .main-svg').length >= 8")
    over = page.locator(".part:not(.away) .variants").first
    over.get_by_role("button", name="J", exact=True).click()
    until(
        page,
        "[...document.querySelectorAll('.xtitle')].some((t) => /energy so far/.test("
        "t.textContent) && t.getBoundingClientRect().width)",
    )
    page.get_by_role("button", name="Light or dark").click()
    page.evaluate(axe())
    result = page.evaluate("axe.run()")
    assert not [
        violation["id"] for violation in result["violations"] if violation["impact"] in SERIOUS
    ]
    assert [
        violation for violation in asked if not violation.startswith(("file:", "data:", "blob:"))
    ] == []
    page.close()


def test_the_list_sorts_filters_and_leads_to_a_run(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, "") as page:
        settled(page, "runs")
        assert "live" in page.locator("table.runs tbody tr").first.inner_text()
        assert page.locator("table.runs img").count() >= 3  # sparklines
        page.get_by_role("link", name="energy", exact=True).click()
        page.wait_for_selector("th[aria-sort]")
        assert "sort=" in page.url
        page.locator("#runs-search").fill("faster")  # as one types: nobody presses Enter
        until(page, "document.querySelectorAll('table.runs tbody tr').length <= 2")
        until(page, "location.search.includes('q=faster')")
        page.get_by_role("link", name="faster").first.click()
        page.wait_for_selector("header:has-text('faster') h1")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        assert set(scripts(page, "plotly")) == {"plotly-cartesian.min.js"}  # and not Dash's own
        page.go_back()
        page.wait_for_selector("table.runs")
        assert "q=faster" in page.url


def test_marked_runs_are_tagged_and_compared(browser: Any, shown: Shown) -> None:
    tick = ".tick[aria-label^='mark {}']"
    with opened(browser, shown, "") as page:
        settled(page, "runs")
        assert page.locator(".marked").is_hidden()
        ticks = [page.locator(tick.format(name)).first for name in ("plain", "faster")]
        begun = sorted(
            (mark.get_attribute("data-begun"), mark.get_attribute("data-run")) for mark in ticks
        )
        for mark in ticks:
            mark.press("Space")  # by keyboard
        assert page.locator(".marked").inner_text().startswith("2 runs marked")
        page.get_by_label("tag", exact=True).fill("pair")
        page.get_by_role("button", name="Add tag").click()
        until(page, "document.querySelectorAll('table.runs .tag').length === 2")
        page.locator("#runs-search").fill("tag:pair -fast")
        until(page, "document.querySelectorAll('table.runs tbody tr').length === 1")
        page.locator("#runs-search").fill("")
        until(page, "document.querySelectorAll('table.runs tbody tr').length > 2")
        until(page, "document.querySelectorAll('.tick[aria-checked=true]').length === 2")
        page.get_by_role("button", name="Archive").click()
        until(page, "document.querySelectorAll('.tick[aria-checked=true]').length === 0")
        page.get_by_role("link", name="show 2 archived, too").click()
        until(page, "document.querySelectorAll('.tick[aria-checked=true]').length === 2")
        page.get_by_role("button", name="Bring back").click()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector(".verdict")
        sides = [page.locator(field).input_value() for field in ("#base", "#other-0")]
        assert sides == [run_id for _, run_id in begun]  # what was recorded first is the base


def test_a_note_is_written_on_the_runs_page_and_stays_text(browser: Any, shown: Shown) -> None:
    note = "<img src=x onerror=alert(1)> second thoughts"
    with opened(browser, shown, f"run/{shown.runs['plain']}") as page:
        settled(page)
        page.get_by_text("tags or a note").or_(page.get_by_text("Tags and note")).click()
        page.get_by_role("textbox", name="Note").fill(note)
        page.get_by_role("button", name="Save note").click()
        page.wait_for_selector(".labels p.note")
        assert page.locator(".labels p.note").inner_text() == note
        assert page.locator(".labels img").count() == 0
        page.goto(shown.url)
        page.wait_for_selector("td small.note")
        assert page.locator("td small.note").inner_text() == note


def test_the_ranks_of_a_job(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['crew']}") as page:
        settled(page)
        page.get_by_role("link", name="4 ranks", exact=True).click()
        page.wait_for_selector("h1:has-text('Ranks')")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        body = page.inner_text("main")
        assert "Rank 2 is the slowest" in body
        costs = page.locator(
            "section.card", has=page.get_by_role("heading", name="Communication", exact=True)
        ).inner_text()
        assert "exposed + contention" in costs
        # Which methods there are depends on how many steps a busy machine made.
        communication = report_of(shown.directory.parent, run=shown.runs["crew"])["communication"]
        assert len(communication) == 4
        assert all(row["method"] in costs for row in communication)
        assert all(f"gpu{gpu}" in body for gpu in range(4))
        with page.expect_download() as download:
            page.locator(
                "section.card", has=page.get_by_role("heading", name="Waiting for other ranks")
            ).get_by_role("link", name="CSV").click()
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
        assert max(rows, key=lambda row: float(row["last_share"]))["rank"] == "2"
        page.get_by_role("link", name="Run", exact=True).click()
        page.wait_for_selector(".tile")
    with opened(browser, shown, f"ranks/{shown.runs['plain']}") as page:
        page.wait_for_selector("text=This run is of one rank")


def test_by_keyboard_alone(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, "") as page:
        settled(page, "runs")
        page.locator("body").press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "to the content"
        page.keyboard.press("Enter")
        seen = []
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.textContent"))
            if seen[-1] == "plain":
                break
        assert seen[-1] == "plain", seen
        page.keyboard.press("Enter")
        page.wait_for_selector("header:has-text('plain') h1")


@pytest.mark.full
def test_two_kinds_are_compared_from_the_form(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, "gains?base=plain&other=faster") as page:
        page.wait_for_selector(".js-plotly-plot .main-svg")
        assert page.locator("#base").input_value() == "plain"
        fields = page.locator("input[name=other]")
        assert [fields.nth(k).input_value() for k in range(fields.count())] == ["faster", ""]
        page.locator("#target").fill("loss<=0.5")
        page.get_by_role("button", name="Compare").click()
        until(page, "location.search.includes('target=')")
        page.wait_for_selector(".verdict, .notice")
        page.go_back()
        until(page, "!location.search.includes('target=')")


def test_the_objective_is_asked_for_in_the_form(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, "gains?base=plain&other=faster") as page:
        page.wait_for_selector("#objective .js-plotly-plot .main-svg")
        page.get_by_text("Objective: weights, constraints, axes").click()
        page.get_by_label("weights, like").fill("time=1,energy=2")
        page.get_by_label("at most, like").fill("time=30s")
        page.locator("#objective-y").select_option("time_per_sample")
        page.get_by_role("button", name="Compare").click()
        until(page, "location.search.includes('weights=time%3D1%2Cenergy%3D2')")
        page.wait_for_selector("#objective .shapelayer path", state="attached")  # the constraint
        assert "has the lowest C" in page.locator("#objective h2").first.inner_text()
        axis = page.locator("#objective .ytitle").text_content()
        assert axis == "time per sample (s)"
        assert page.locator("#objective .scroll table tbody tr").count() >= 2


@pytest.mark.full
def test_devices_are_chosen_and_stand_in_the_address(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, f"run/{shown.runs['live']}") as page:
        settled(page)
        page.evaluate("window.mine = true")
        for name in ("gpu5", "gpu2"):  # at once: nothing waits for the server
            page.get_by_role("link", name=name, exact=True).click()
        assert page.url.endswith("?d=gpu2,gpu5")
        until(page, DRAWN, ["gpu2", "gpu5"])
        drag(page, "power", 0.2, 0.5)
        until(page, "location.search.includes('t=')")
        zoomed = ranged(page, "power")
        page.get_by_role("link", name="gpu2", exact=True).click()
        until(page, DRAWN, ["gpu5"])
        assert ranged(page, "power") == pytest.approx(zoomed, abs=0.05), "the zoom was lost"
        page.get_by_role("link", name="whole run", exact=True).click()
        assert page.url.endswith("?d=gpu5")
        assert page.locator(".of-power .spans a.on").all_inner_texts() == ["whole run", "gpu5"]
        until(
            page,
            '(end) => { const p = document.querySelector(`[id*=\'"view":"power"\'] '
            ".js-plotly-plot`); return p._fullLayout.xaxis.range[1] > end; }",
            zoomed[1],
        )
        page.get_by_role("link", name="all devices", exact=True).click()
        until(page, DRAWN, ["median of 8 (band: all)"])
        assert page.evaluate("window.mine"), "the page was asked for again"
        page.go_back()
        until(page, "location.search === '?d=gpu5'")
        until(page, DRAWN, ["gpu5"])


@pytest.mark.parametrize("how", ["deleted", pytest.param("torn", marks=pytest.mark.full)])
def test_a_run_that_vanishes_while_it_is_shown(how: str, browser: Any, shown: Shown) -> None:
    run = shown.directory / shown.runs[how]
    with opened(browser, shown, f"run/{shown.runs[how]}") as page:
        settled(page)
        if how == "deleted":
            shutil.rmtree(run)
        else:
            (run / "run.json").write_text('{"schema": 1, "id": ')
        page.wait_for_selector("[role=alert]")
        alert = page.locator("[role=alert]").first.inner_text()
        assert "Traceback" not in alert and len(alert) < 600
        assert page.locator(".js-plotly-plot").count() >= 1  # what was seen stays
        page.get_by_role("link", name="Runs", exact=True).click()
        page.wait_for_selector("table.runs")
        body = page.inner_text("table.runs")
        assert (shown.runs[how] in body) == (how == "torn")


def test_a_theme_that_is_chosen_stays(browser: Any, shown: Shown) -> None:
    with opened(browser, shown, "sensors", scheme="light") as page:
        page.wait_for_selector("h2")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="theme").click()
        until(page, "(light) => getComputedStyle(document.body).backgroundColor !== light", light)
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.reload()
        page.wait_for_selector("h2")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
