"""The list of runs: what is searched for, page by page, and what it comes to."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from dashboard import urls
from dashboard.access import Access
from dashboard.app import create_app
from dashboard.context import CONFIG_KEY, AppContext
from dashboard.data.library import Library
from dashboard.pages import _gains_form, _run_table, runs
from dashboard.pages._run_table import Asked
from dashboard.server import Serving
from probe.store.catalogue import RunSummary
from probe.store.catalogue.labels import change_labels
from probe.store.runs import create_run
from tests.fakes import processes
from tests.fakes.stored_run import counter, energy_source, stored_run

NS = 10**9


def described(page: Any) -> str:
    """What a browser gets."""
    return json.dumps(page, default=lambda part: part.to_plotly_json(), ensure_ascii=False)


def shown(directory: Path, **address: str) -> str:
    app = create_app(directory, Access())
    with app.test_request_context("/"):
        return described(runs.PAGE.layout(app.config[CONFIG_KEY], address))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBE_CALIBRATION", raising=False)
    source = energy_source(0), counter(1000 * NS, 30.0, 250.0)
    stored_run(tmp_path / "runs", [source], 30.0, run_id="20260101-000000-plain", steps=250)
    return tmp_path / "runs"


def test_every_word_of_an_address_is_understood_or_left_out() -> None:
    given = {"q": "a b", "sort": "-energy", "page": "3", "by": "tag", "archived": "1"}
    assert Asked.of(given).stored() == given
    wrong = {"q": ["x"], "sort": "-nothing", "page": "-1", "by": "month", "archived": "yes"}
    assert Asked.of(wrong) == Asked() == Asked.of(None) == Asked.of({"page": "٣"})


class Watched(Library):
    """Says when its rows are asked for."""

    def __init__(self, directory: Path):
        super().__init__(directory)
        self.asked = threading.Event()

    def numbered_rows(self) -> tuple[int, list[RunSummary]]:
        self.asked.set()
        return super().numbered_rows()


def test_the_directory_is_read_while_the_browser_loads_its_scripts(directory: Path) -> None:
    app = create_app(directory, Access())
    library = Watched(directory)
    object.__setattr__(app.config[CONFIG_KEY], "library", library)
    browser = app.test_client()
    for path in ("/assets/style.css", "/sensors"):
        with browser.get(path) as answer:
            assert answer.status_code == 200
    assert not library.asked.is_set()
    assert browser.get("/").status_code == 200
    assert library.asked.wait(processes.HUNG_S)


@pytest.mark.parametrize("base", ["/", "/below/"])
def test_the_scripts_of_charts_are_fetched_early_on_pages_that_open_with_some(
    directory: Path, base: str
) -> None:
    browser = create_app(directory, Access(), base).test_client()
    link = '<link rel="{}" as="script" href="{}">'
    scripts = [
        f"{base}assets/plotly-cartesian.min.js",
        f"{base}_dash-component-suites/dash/dcc/async-graph.js",
    ]
    for path, when in (("", "prefetch"), ("run/20260101-000000-plain", "preload")):
        page = browser.get(base + path).text
        for script in scripts:
            assert link.format(when, script) in page
            assert browser.get(script).status_code == 200


def test_a_server_reads_the_directory_before_a_page_asks(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries: list[Watched] = []

    def watched(directory: Path) -> Watched:
        libraries.append(Watched(directory))
        return libraries[-1]

    monkeypatch.setattr("dashboard.context.Library", watched)
    serving = Serving(directory, Access(port=0))
    try:
        assert libraries[0].asked.is_set()  # so few runs are read before the address is there
    finally:
        serving.close()


def test_a_server_whose_loop_has_ended_is_closed_without_an_error(directory: Path) -> None:
    serving = Serving(directory, Access(port=0))
    serving._server.trigger.pull_trigger(serving._server.close)
    serving._thread.join(processes.HUNG_S)
    serving.close()


def test_a_directory_that_hangs_does_not_keep_the_server_from_ending(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.data.library._LAST_LOOK_S", 0.05)
    library = Library(directory)
    with library._reading:  # as a thread that waits for a file server
        library.close()


def test_tabs_that_ask_for_the_same_share_the_answer_until_a_run_changes(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Asked] = []

    def counted(context: AppContext, rows: list[RunSummary], asked: Asked) -> Any:
        made.append(asked)
        return original(context, rows, asked)

    original = runs._new_content
    monkeypatch.setattr(runs, "_new_content", counted)
    monkeypatch.setattr("dashboard.data.library._FRESH_S", 3600.0)
    app = create_app(directory, Access())
    context: AppContext = app.config[CONFIG_KEY]
    with app.test_request_context("/"):
        shown = [described(runs.PAGE.layout(context, {})) for _ in range(3)]
        runs.PAGE.layout(context, {"sort": "energy"})
        assert shown[0] == shown[1] == shown[2] and len(made) == 2
        change_labels(directory / "20260101-000000-plain", add=["new"])
        context.library.changed()
        assert '"children": "new"' in described(runs.PAGE.layout(context, {}))


def test_archived_runs_are_out_of_sight_and_found_when_asked_for(directory: Path) -> None:
    change_labels(directory / "20260101-000000-plain", archived=True, add=["old"])
    create_run(directory, "20260102-000000-new", shared=False, fields={"name": "new"})
    assert "20260101-000000-plain" not in shown(directory)
    assert "are archived and were not looked at" in shown(directory, q="tag:old")
    assert "20260101-000000-plain" in shown(directory, q="tag:old", archived="1")
    assert '"1 of 2 runs"' in shown(directory)


def test_a_table_has_one_page_of_rows_however_many_runs_there_are(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run_table, "PER_PAGE", 3)
    for number in range(7):
        copy = directory / f"2026020{number}-000000-x"
        shutil.copytree(directory / "20260101-000000-plain", copy)
    for page, rows in (("1", 3), ("2", 3), ("3", 2), ("99", 2)):
        assert shown(directory, page=page).count('"role": "checkbox"') == rows


def test_totals_are_of_all_that_is_found_and_by_what_is_asked(directory: Path) -> None:
    shutil.copytree(directory / "20260101-000000-plain", directory / "20260102-000000-more")
    change_labels(directory / "20260102-000000-more", add=["sweep"])
    text = shown(directory, by="tag")
    assert '"sweep"' in text and '"no tag"' in text and '"Totals by tag"' in text
    assert '"2 runs"' in text and '"1 of 2 runs"' in shown(directory, q="sweep")


def test_what_takes_most_is_found_out_in_the_background_and_kept(directory: Path) -> None:
    library = Library(directory)
    (row,) = library.rows()
    assert row["hungriest"] is None
    library.look_into([row])
    assert processes.wait_until(lambda: library.rows()[0]["hungriest"] is not None)
    first_row = library.rows()[0]
    takes = first_row["hungriest"]
    assert takes is not None and takes["phase"] == "backward" and 0.3 < takes["share"] < 0.7
    assert first_row["energy_j"] == pytest.approx(250.0 * 30.0, rel=0.05)  # run.json had no totals
    library.close()
    assert Library(directory).rows()[0]["hungriest"] == takes


def test_a_tag_leads_to_all_runs_that_have_it(directory: Path) -> None:
    change_labels(directory / "20260101-000000-plain", add=["lr=0.1"])
    assert urls.query({"q": 'tag:"lr=0.1"'}) in shown(directory)


def test_what_can_be_compared_is_proposed(directory: Path) -> None:
    create_run(directory, "20260102-000000-live", shared=False, fields={"name": "live"})
    proposed = _gains_form.choices(AppContext(directory))
    assert list(proposed) == ["made", "20260101-000000-plain"] and proposed["made"] == "1 run"
    fields = " ".join(map(described, _gains_form.sides(proposed, "made", ["a", "b"])))
    assert fields.count('"name": "other"') == 3  # and an empty one for one more
