"""A page is one file; what is computed of a run is computed once."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

import dashboard.pages
from dashboard.access import Access
from dashboard.app import create_app
from dashboard.chart_data import Chart, Column
from dashboard.data.cache import Cache, cached
from dashboard.page import ChartTable, Page
from dashboard.pages import pages
from probe.store.runs import create_run
from tests.fakes import processes

PAGE = """
from dash import html

from dashboard.chart_data import Chart, Column
from dashboard.page import ChartTable, Page


def table(context, name):
    chart = Chart("a caption", None, [Column("name", "name")], [[name], [str(context.directory)]])
    return ChartTable("A table", "file", chart)


PAGE = Page(
    path="/extra/<name>",
    title="Extra",
    layout=lambda context, address: html.Main(f"{address['name']} below {context.base}"),
    callbacks=lambda app: None,
    navigation=(9, "Extra"),
    tables={"extra/<name>": table},
)
"""


def test_a_page_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "extra.py").write_text(PAGE)
    (tmp_path / "_helper.py").write_text("raise AssertionError('helps a page, is none')")
    monkeypatch.setattr(dashboard.pages, "__path__", [*dashboard.pages.__path__, str(tmp_path)])
    pages.cache_clear()
    try:
        asker = create_app(tmp_path, Access(), "/energy").test_client()
        answer = asker.get("/energy/csv/extra/a%20name")
        assert answer.text == f"name\na name\n{tmp_path}\n"
        layout = json.dumps(asker.get("/energy/_dash-layout").get_json())
        assert '"/energy/extra/<name>"' in layout and '"Extra"' in layout
        assert layout.index('"Runs"') < layout.index('"Compare"') < layout.index('"Sensors"')
    finally:
        pages.cache_clear()
        sys.modules.pop("dashboard.pages.extra", None)


class Run:
    def __init__(self) -> None:
        self.cache, self.version, self.calls = Cache(), "1", 0

    def newest(self) -> str:
        return self.version

    @cached
    def double(self, number: int) -> int:
        self.calls += 1
        return 2 * number


def test_an_answer_is_computed_again_only_when_there_is_something_new() -> None:
    run = Run()
    assert [run.double(2), run.double(2), run.double(3)] == [4, 4, 6] and run.calls == 2
    run.version = "2"
    assert run.double(2) == 4 and run.calls == 3
    assert Run().double(2) == 4 and run.calls == 3  # each has its own


def test_who_asks_meanwhile_waits_for_the_answer() -> None:
    run, begun, go_on = Run(), threading.Event(), threading.Event()
    calls = []

    @cached
    def slow(run: Run) -> int:
        calls.append(1)
        begun.set()
        assert go_on.wait(processes.HUNG_S)
        return len(calls)

    answers: list[int] = []
    askers = [threading.Thread(target=lambda: answers.append(slow(run))) for _ in range(4)]
    for asker in askers:
        asker.start()
    assert begun.wait(processes.HUNG_S)
    assert run.double(1) == 2  # another answer does not wait
    go_on.set()
    for asker in askers:
        asker.join(processes.HUNG_S)
    assert answers == [1] * 4


def test_a_table_leads_back_and_has_four_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = Chart("", None, [Column("j", "J")], [[1414.98123], [0.00544265], [1234567.8]])
    table = ChartTable("A table", "file", chart)
    page = Page(
        path="/of",
        title="",
        layout=lambda context, address: None,
        callbacks=lambda app: None,
        tables={"of/<run_id>": lambda context, run_id: table},
    )
    monkeypatch.setattr("dashboard.downloads.pages", lambda: {"of": page})
    text = create_app(tmp_path, Access(), "/energy").test_client().get("/energy/table/of/a-b").text
    assert ">Runs</a>" in text.replace("'", '"') and "/energy/run/a-b" in text
    assert ">1415<" in text and ">0.005443<" in text and ">1234568<" in text


def test_the_tab_of_a_run_has_its_name(tmp_path: Path) -> None:
    title = pages()["dashboard.pages.run"].title
    app = create_app(tmp_path, Access(), "/")
    with app.test_request_context("/"):
        assert callable(title) and title(run_id="x") == "x · phasewatt"
        create_run(tmp_path, "x", shared=False, fields={"name": "resnet"})
        assert title(run_id="x") == "resnet · phasewatt"
