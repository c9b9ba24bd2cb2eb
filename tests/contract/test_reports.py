"""What every report format promises, over the JSON of a run with all kinds of rows."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from probe.errors import UsageError
from probe.report.formats import formats, render
from tests.fakes.reports import full_report, group_report, power_row, without_meter

HOSTILE = 'a|b\n<script>alert(1)</script> "q" `c` [l](http://x) @all =1+1 é' + "x" * 5000


def test_the_formats_that_are_promised() -> None:
    assert set(formats()) >= {"text", "json", "md", "csv", "html", "parquet", "pdf"}


@pytest.mark.parametrize("name", formats())
def test_it_renders_without_changing_the_report(name: str) -> None:
    given = full_report()
    before = given.to_json()
    assert len(render(given, name)) > 200
    assert given.to_json() == before


@pytest.mark.parametrize("name", formats())
def test_a_run_without_any_meter(name: str) -> None:
    rendered = render(without_meter(full_report()), name)
    if isinstance(rendered, bytes):
        return
    text = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]*>", " ", rendered, flags=re.DOTALL)
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_markdown_stays_one_comment() -> None:
    text = render(full_report(HOSTILE), "md")
    assert text.startswith("<!-- phasewatt report -->") and len(text.splitlines()) < 60
    body = text.split("-->", 1)[1]
    assert "<" not in body and "@" not in body and "](" not in body
    for table in re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    assert max(map(len, text.splitlines())) < 3000


def test_markdown_figures() -> None:
    text = render(full_report(), "md")
    assert "400 ± 10 J" in text and "| 0 … 50 J |" in text and "bounds only" in text
    assert "| forward | 75.0 % | 300 J |" in text
    assert "of CPU and RAM, not in the measured energy" in text


def test_commands_in_markdown_stay_code_and_names_stay_harmless() -> None:
    notes = ("`probe doctor` says why", "odd ` one", "a `<b>` tag")
    text = str(render(replace(full_report(), warnings=notes), "md"))
    assert "`probe doctor` says why" in text and "odd &#96; one" in text
    assert "<b>" not in text and "a &lt;b" not in text


def test_html_is_one_file_that_asks_for_nothing() -> None:
    given = replace(full_report(HOSTILE), power=(power_row(200.0, None, 210.0),))
    page = render(given, "html")
    assert isinstance(page, str) and len(page) < 2_000_000
    assert "<script" not in page.lower() and "url(http" not in page and "@import" not in page
    assert not re.search(
        r"""(src|href)=["']?(https?:|//)""", re.sub(r'xlink:href="#|xmlns(:\w+)?="[^"]*"', "", page)
    )
    assert page.count("<svg") == 3 and page.count("<table") >= 5
    assert "measured" in page and "modelled" in page and "Method and limits" in page


@pytest.mark.parametrize("name", ["plain", HOSTILE, '#eval("1")', "\\", "$x$", "*b*"])
def test_pdf_has_pages_whatever_the_name(name: str) -> None:
    document = render(full_report(name), "pdf")
    assert isinstance(document, bytes) and document.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type */Page\b", document)) <= 5


@pytest.mark.parametrize(("name", "package"), [("html", "matplotlib"), ("pdf", "typst")])
def test_a_package_that_is_missing_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match="pip install"):
        render(full_report(), name)


def test_csv_round_trip() -> None:
    given = full_report(HOSTILE)
    rows = list(csv.DictReader(io.StringIO(render(given, "csv"))))
    assert len(rows) == len(given.phases)
    for read, given_row in zip(rows, given.phases, strict=True):
        assert read["phase"] == given_row.phase and read["device"] == given_row.device
        energy = given_row.energy_j
        assert read["energy_j"] == ("" if energy is None else str(energy))
        assert float(read["time_s"]) == given_row.time_s
    formula = full_report("=cmd()")
    assert list(csv.DictReader(io.StringIO(render(formula, "csv"))))[1]["phase"] == "'=cmd()"


def test_parquet_is_typed_and_carries_the_full_report() -> None:
    import pyarrow.parquet as pq

    given = full_report(HOSTILE)
    table = pq.read_table(io.BytesIO(render(given, "parquet")))  # type: ignore[arg-type]
    assert table.column("energy_j").to_pylist() == [r.energy_j for r in given.phases]
    assert table.column("phase").to_pylist() == [r.phase for r in given.phases]
    assert json.loads(table.schema.metadata[b"phasewatt"]) == given.to_dict()


@pytest.mark.parametrize(
    ("body", "said"),
    [("return 'mine: ' + data.run.id", ""), ("raise ValueError('no')", "mine: ValueError: no")],
)
def test_a_third_partys_format(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_format.py").write_text(f"def render(data):\n    {body}\n")
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[probe.reports]\nmine = their_format:render\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_format", raising=False)
    assert "mine" in formats()
    if not said:
        assert render(full_report(), "mine") == "mine: 20260101-000000-abc"
        with pytest.raises(UsageError, match=r"holds one run.*abc/1.*html"):
            render(group_report(), "mine")  # it knows of no group
    else:
        with pytest.raises(UsageError, match=said):
            render(full_report(), "mine")


def test_json_is_the_full_report() -> None:
    assert json.loads(render(full_report(), "json")) == full_report().to_dict()


def test_an_unknown_format_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="choose from"):
        render(full_report(), "docx")
