"""Every format of a report says the same: the figures are read back and compared with the run's."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.report.all_devices import METERED, all_devices
from probe.report.answer import answer
from probe.report.build import run_report
from probe.report.document import brief, document
from probe.report.formats import render
from probe.report.formats.text import Shape, shaped
from probe.report.model import PhaseRow, Report
from probe.report.numbers import energy_with_error
from probe.report.phase_tables import how
from probe.report.serialization import from_json
from tests.fakes.written_figures import Figure, between, figure
from tests.fixtures.archives import STORED_RUNS, unpack

RUNS = (
    "activity", "by-hand", "counter-reset", "device-clock", "eight-gpus", "four-ranks",
    "hostile-name", "modelled-only", "processor", "recorder-replaced", "two-hosts", "unmeasured",
)  # fmt: skip
PDF_RUNS = ("eight-gpus", "two-hosts")  # a PDF takes a second or two; all of them in test-full
CELLS = {
    "of energy": "energy_share",
    "of the model": "",
    "energy": "energy_j",
    "of time": "time_share",
    "time": "time_s",
    "count": "count",
    "power": "power_w",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED_RUNS, folder)
    return folder / "runs"


@pytest.fixture(scope="module", params=RUNS)
def report(request: pytest.FixtureRequest, stored: Path) -> Report:
    (path,) = stored.glob(f"*-{request.param}")
    return run_report(path)


WRITTEN = re.compile(
    r"\d+ h \d+ min|\d+ min \d+ s|−?\d+(?:\.\d+)?(?: (?:kWh|kJ|mJ|µJ|J|W|%|µs|ms|s)\b)?(?: %)?"
)


def text_rows(text: str) -> Iterator[list[str]]:
    """Cells of lines whose columns are two spaces or more apart; an empty cell is lost."""
    for line in text.splitlines():
        yield re.split(r" {2,}", line.strip())


def columns_of(text: str, head: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Rows below a head of aligned columns, by where in the line each cell ends or begins."""
    spans: list[tuple[str, int, int]] = []
    for line in text.splitlines():
        if line.split()[:1] == ["phase"] and all(name in line for name in head):
            spans = [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+(?: \S+)*", line)]
        elif not line.strip():
            spans = []
        elif spans:
            row = {}
            for cell in re.finditer(r"\S+(?: \S+)*", line):
                row[nearest(spans, cell.start(), cell.end())] = cell[0]
            yield row


def nearest(spans: list[tuple[str, int, int]], begin: int, end: int) -> str:
    """The column whose begin or end is next to the cell's."""
    return min(spans, key=lambda span: min(abs(span[2] - end), abs(span[1] - begin)))[0]


def markdown_rows(text: str) -> Iterator[dict[str, str]]:
    head: list[str] = []
    for line in text.splitlines():
        if not line.startswith("| "):
            head = []
            continue
        cells = [html.unescape(cell.strip()) for cell in line.strip("|").split("|")]
        if not head:
            head = cells
        elif not re.fullmatch(r"-{3,}:?", cells[0]):
            yield dict(zip(head, cells, strict=True))


def html_rows(page: str, first: str = "phase") -> Iterator[dict[str, str]]:
    """Rows of the tables whose first column has that name."""
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = [
            [html.unescape(re.sub(r"<.*?>", "", cell)) for cell in
             re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        ]  # fmt: skip
        if rows and rows[0][0] == first:
            yield from (dict(zip(rows[0], row, strict=True)) for row in rows[1:])


def agrees(cells: dict[str, str], row: PhaseRow, shown: frozenset[str]) -> None:
    """Every cell that is shown is the row's figure, and what is unknown is no figure."""
    for name, attribute in CELLS.items():
        text = cells.get(name, "")
        if name not in shown or not attribute:
            continue
        exact = getattr(row, attribute)
        if text in ("", "—"):
            assert exact is None or name in ("count", "time"), (row.phase, name, exact)
        else:
            assert exact is not None and figure(text).agrees(float(exact)), (row.phase, name, text)
    limits = row.energy_j_interval or row.bounds_j
    if "95 % interval" in shown and limits is not None:
        for read, exact in zip(between(cells["95 % interval"]), limits, strict=True):
            assert Figure(read.value, read.error).agrees(exact), (row.phase, cells)
    if "how" in shown and cells.get("how"):
        assert cells["how"] == how(row)


def main_rows(report: Report) -> dict[str, PhaseRow]:
    return {row.phase: row for row in all_devices(report)[0].phases}


def check(report: Report, rows: Iterator[dict[str, str]], shown: frozenset[str] | None) -> None:
    """The main table's rows come first, in their order."""
    exact = main_rows(report)
    read = 0
    for cells in rows:
        name = cells.get("phase", "")
        if name == "all" or read == len(exact):
            break
        row = exact.get(name)
        if row is None:  # shortened, or of another table
            continue
        agrees(cells, row, frozenset(cells) if shown is None else shown)
        read += 1
    assert read >= min(3, len(exact)), f"{read} of {len(exact)} rows were read"


@pytest.mark.parametrize("width", [80, 120])
def test_text(report: Report, width: int) -> None:
    text = shaped(report, Shape(width=width))
    assert max(map(len, text.splitlines())) <= width or "hostile" in report.run.id
    check(report, columns_of(text, ("of time",)), None)


def test_narrow_text_tears_no_word(report: Report) -> None:
    text = shaped(report, Shape(width=60, devices=True))
    words = set(re.findall(r"\S{4,}", shaped(report, Shape(width=10_000, devices=True))))
    torn = [
        word
        for word in re.findall(r"\S{4,}", text)
        if word not in words and not any(long in word or word in long for long in words)
    ]
    assert not torn
    wide = [
        line
        for line in text.splitlines()
        if len(line) > 60 and len(max(line.split(), key=len)) < 40
    ]
    assert not wide


def test_markdown(report: Report) -> None:
    check(report, markdown_rows(str(render(report, "md"))), None)


def test_html(report: Report) -> None:
    check(report, html_rows(str(render(report, "html"))), None)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
@pytest.mark.parametrize("name", [*PDF_RUNS, *(
    pytest.param(name, marks=pytest.mark.full) for name in RUNS if name not in PDF_RUNS
)])  # fmt: skip
def test_pdf(name: str, stored: Path, tmp_path: Path) -> None:
    (path,) = stored.glob(f"*-{name}")
    report = run_report(path)
    file = tmp_path / "report.pdf"
    file.write_bytes(bytes(render(report, "pdf")))  # type: ignore[arg-type]
    read = subprocess.run(
        ["pdftotext", "-layout", file, "-"], capture_output=True, check=True, text=True
    ).stdout
    first = " ".join(read.split())
    for line in answer(report).lines[:2]:
        assert " ".join(line.split()) in first
    exact = main_rows(report)
    rows = 0
    for cells in text_rows(read):
        row = exact.get(cells[0])
        if row is None or len(cells) < 2 or rows >= len(exact):
            continue
        expected = [
            row.energy_share, row.energy_j, row.time_share, row.time_s, row.power_w
        ]  # fmt: skip
        figures = [figure(cell) for cell in WRITTEN.findall(" ".join(cells[1:]))]
        if row.is_modelled:
            expected[0] = None  # the table has shares of the whole model, not of the processor's
        shown = [value for value in expected if value is not None]
        if row.phase == "unresolved":
            shown.remove(row.time_s)
        unmatched = [v for v in shown if not any(f.agrees(v) for f in figures)]
        assert not unmatched, (cells, unmatched)
        rows += 1
    assert rows >= min(3, len(exact))
    pages = subprocess.run(["pdftotext", file, "-"], capture_output=True, check=True, text=True)
    for page in pages.stdout.rstrip("\f").split("\f"):
        assert len(page.split()) > 40, "a page is all but empty"


def test_csv_and_parquet_and_json_are_exact(report: Report) -> None:
    import pyarrow.parquet as pq

    rows = list(csv.DictReader(io.StringIO(str(render(report, "csv")))))
    table = pq.read_table(io.BytesIO(bytes(render(report, "parquet")))).to_pylist()  # type: ignore[arg-type]
    assert len(rows) == len(table) == len(report.phases)
    for text, typed, row in zip(rows, table, report.phases, strict=True):
        assert typed["energy_j"] == row.energy_j and typed["time_s"] == row.time_s
        assert text["energy_j"] == ("" if row.energy_j is None else repr(row.energy_j))
        low, high = row.energy_j_interval or (None, None)
        assert text["energy_j_low"] == ("" if low is None else repr(low))
        assert text["energy_j_high"] == ("" if high is None else repr(high))
    again = from_json(str(render(report, "json")))
    assert again == report or again.to_dict() == report.to_dict()


def words(component: object) -> str:
    """All text of a Dash component."""
    if isinstance(component, str | int | float):
        return str(component)
    if isinstance(component, list | tuple):
        return " ".join(map(words, component))
    return words(getattr(component, "children", None) or "")


def test_the_page(report: Report) -> None:
    """The dashboard's first lines, its six figures, and the table behind its chart of phases."""
    from dashboard.figures.phases import phases
    from dashboard.pages import _run_summary

    first = answer(report)
    head = words(_run_summary.head(report)).replace("\u00a0", " ")
    assert head.startswith(f"{first.headline} {first.used}")
    tiles = words(_run_summary.strip(report)).replace("\u00a0", " ")
    total = report.total
    if total.energy_j is not None:
        assert total.energy_j_interval is not None
        half = (total.energy_j_interval[1] - total.energy_j_interval[0]) / 2
        assert energy_with_error(total.energy_j, half) in tiles and first.used.startswith(
            energy_with_error(total.energy_j, half)
        )
    drawn = [row for row in report.phases if row.time_s or row.energy_j or row.bounds_j]
    chart = phases(report)
    assert len(chart.rows) == len(drawn)
    for cells, row in zip(chart.rows, drawn, strict=True):
        limits = (*(row.energy_j_interval or (None, None)), *(row.bounds_j or (None, None)))
        assert list(cells) == [
            row.device, row.phase, row.count, row.time_s, row.energy_j, *limits, row.power_w,
            row.status, row.provenance,
        ]  # fmt: skip


def test_the_first_lines_are_the_same_everywhere(report: Report) -> None:
    first = answer(report)
    text = shaped(report, Shape(width=10_000)).splitlines()
    assert text[0] == first.headline and text[1] == first.used
    page = html.unescape(str(render(report, "html"))).replace("\u00a0", " ")
    assert f"<h1>{first.headline}</h1><p class='used'>{first.used}</p>" in page
    markdown = html.unescape(str(render(report, "md"))).splitlines()
    assert markdown[1] == f"### {first.headline}" and markdown[3] == f"**{first.used}**"
    assert brief(report)[:2] == [first.headline, first.used] and len(brief(report)) == 5
    assert document(report).answer == first


def test_the_tables_sum_up_to_the_total(report: Report) -> None:
    total = report.total
    for table in all_devices(report):
        phases_j = sum(row.energy_j or 0.0 for row in table.phases)
        if table.kind == METERED:
            assert phases_j == pytest.approx(total.energy_j, rel=1e-9)
        assert sum(r.time_share or 0.0 for r in table.phases) == pytest.approx(1.0, abs=1e-9)
    cells = [t for s in document(report).sections for t in s.tables if "of the model" in t.head]
    if total.modelled_energy_j and cells and total.energy_j is None:
        rows = cells[0].rows
        parts = [figure(row[2]).value for row in rows[:-1]]
        assert sum(parts) == pytest.approx(total.modelled_energy_j, rel=0.01)
        assert figure(rows[-1][2]).agrees(total.modelled_energy_j)


def test_without_a_meter_no_share_is_of_the_energy(report: Report) -> None:
    if report.total.energy_j is not None:
        return
    for name in ("text", "md", "html"):
        assert "of energy" not in str(render(report, name))
    assert "of the energy" not in answer(report).headline


def test_eight_gpus_fit_a_screen(stored: Path) -> None:
    (path,) = stored.glob("*-eight-gpus")
    report = run_report(path)
    assert len(shaped(report, Shape()).splitlines()) <= 40
    assert len(shaped(report, Shape(devices=True)).splitlines()) > 80


def test_the_schema_that_is_shipped_fits_real_reports(stored: Path) -> None:
    from jsonschema import Draft202012Validator

    from probe.report.build import report_of
    from probe.report.serialization import SCHEMA_FILE, json_schema

    shipped = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert shipped == json_schema(), "python -m probe.report.serialization writes it anew"
    validator = Draft202012Validator(shipped)
    for path in sorted(stored.iterdir()):
        validator.validate(json.loads(str(report_of(path).render("json"))))
    broken = json.loads(str(render(run_report(next(stored.glob("*-device-clock"))), "json")))
    broken["phases"][0]["energy_j"] = "much"
    assert not validator.is_valid(broken)
