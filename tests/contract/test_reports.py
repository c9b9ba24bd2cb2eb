"""What every report format promises, over the JSON of a run with all kinds of rows."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from probe.errors import UsageError
from probe.report.formats import formats, render

HOSTILE = 'a|b\n<script>alert(1)</script> "q" `c` [l](http://x) @all =1+1 é' + "x" * 5000


def row(phase: str, energy: float | None, **values: Any) -> dict[str, Any]:
    given = {
        "phase": phase,
        "device": "gpu0",
        "count": 10,
        "time_s": 2.0,
        "energy_j": energy,
        "energy_j_interval": None if energy is None else [0.9 * energy, 1.1 * energy],
        "power_w": None if energy is None else energy / 2,
        "status": "resolved",
        "bounds_j": [0.0, 50.0] if energy is None else None,
        "provenance": "estimated",
    }
    return given | values


def report(name: str = "plain") -> dict[str, Any]:
    """Stated, refused, modelled; no meter's trouble is left out."""
    return {
        "schema": 1,
        "run": {
            "id": "20260101-000000-abc",
            "name": name,
            "status": "failed",
            "ended_by": f"rank 0 failed: {name}",
            "exit_code": 1,
            "part_s": None,
            "started": "2026-01-01T00:00:00+00:00",
            "ended": "2026-01-01T00:00:10+00:00",
            "duration_s": 10.0,
            "host": "h",
            "ranks": 1,
            "steps": 10,
            "config": None,
            "data": "d",
            "directory": "/runs/x",
        },
        "total": {
            "energy_j": 400.0,
            "energy_j_interval": [390.0, 410.0],
            "co2e_g": 0.05,
            "modelled_energy_j": 30.0,
            "modelled_co2e_g": 0.004,
            "coverage": 0.99,
        },
        "sources": [
            {
                "source": "nvml:u:energy",
                "device": "gpu0",
                "uuid": "u",
                "model": "M",
                "method": "counter",
                "provenance": "measured",
                "in_total": True,
                "energy_j": 400.0,
                "gaps": 0,
                "period_s": 0.1,
                "note": "",
            }
        ],
        "phases": [
            row("forward", 300.0),
            row(name, 80.0, status="weak"),
            row("data", None, status="not_identifiable"),
            row("unattributed", 20.0),
            row("forward", 20.0, device="cpu", provenance="modelled", energy_j_interval=None),
        ],
        "groups": [],
        "rates": [],
        "power": [],
        "overhead": {"share_of_step": 0.01, "method": "m"},
        "recorder": {"cpu_s": 1.0, "wall_s": 10.0},
        "machine": {},
        "torch": "2",
        "carbon": {"g_per_kwh": 475.0, "label": "world", "source": "s", "country": None},
        "absent": [],
        "gaps": {"count": 0, "edges_lost": 0},
        "values": {"loss": {"last": 0.5, "sum": 5.0}},
        "warnings": [f"trouble with {name}"],
    }


def test_the_formats_that_are_promised() -> None:
    assert set(formats()) >= {"text", "json", "md", "csv", "html", "parquet", "pdf"}


@pytest.mark.parametrize("name", formats())
def test_it_renders_without_changing_the_report(name: str) -> None:
    given = report()
    before = copy.deepcopy(given)
    assert len(render(given, name)) > 200
    assert given == before


@pytest.mark.parametrize("name", formats())
def test_a_run_without_any_meter(name: str) -> None:
    given = report()
    given["total"] |= dict.fromkeys(given["total"])
    given["sources"], given["carbon"], given["values"] = [], None, {}
    given["phases"] = [row("forward", None, bounds_j=None, status="not_identifiable")]
    rendered = render(given, name)
    if isinstance(rendered, bytes):
        return
    text = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]*>", " ", rendered, flags=re.DOTALL)
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_markdown_stays_one_comment() -> None:
    text = render(report(HOSTILE), "md")
    assert text.startswith("<!-- phasewatt report -->") and len(text.splitlines()) < 60
    body = text.split("-->", 1)[1]
    assert "<" not in body and "@" not in body and "](" not in body
    tables = [line for line in body.splitlines() if line.startswith("| ")]
    assert all(line.count("|") == 9 for line in tables)
    assert max(map(len, text.splitlines())) < 3000


def test_markdown_figures() -> None:
    text = render(report(), "md")
    assert "400 J ± 10 J" in text and "0 … 50 bounds" in text and "not measured" in text
    assert "| forward | 10 | 2.00 s |" in text and "| modelled |" in text


def test_html_is_one_file_that_asks_for_nothing() -> None:
    given = report(HOSTILE)
    given["power"] = [
        {
            "device": "gpu0",
            "source": "s",
            "provenance": "measured",
            "begin_s": 0.0,
            "step_s": 1.0,
            "power_w": [200.0, None, 210.0],
        }
    ]
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
    document = render(report(name), "pdf")
    assert isinstance(document, bytes) and document.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type */Page\b", document)) <= 5


@pytest.mark.parametrize(("name", "package"), [("html", "matplotlib"), ("pdf", "typst")])
def test_a_package_that_is_missing_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match="pip install"):
        render(report(), name)


def test_csv_round_trip() -> None:
    given = report(HOSTILE)
    rows = list(csv.DictReader(io.StringIO(render(given, "csv"))))
    assert len(rows) == len(given["phases"])
    for read, told in zip(rows, given["phases"], strict=True):
        assert read["phase"] == told["phase"] and read["device"] == told["device"]
        energy = told["energy_j"]
        assert read["energy_j"] == ("" if energy is None else str(energy))
        assert float(read["time_s"]) == told["time_s"]
    formula = report("=cmd()")
    assert list(csv.DictReader(io.StringIO(render(formula, "csv"))))[1]["phase"] == "'=cmd()"


def test_parquet_is_typed_and_carries_the_report() -> None:
    import pyarrow.parquet as pq

    given = report(HOSTILE)
    table = pq.read_table(io.BytesIO(render(given, "parquet")))  # type: ignore[arg-type]
    assert table.column("energy_j").to_pylist() == [r["energy_j"] for r in given["phases"]]
    assert table.column("phase").to_pylist() == [r["phase"] for r in given["phases"]]
    assert json.loads(table.schema.metadata[b"phasewatt"]) == given


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 'mine: ' + data['run']['id']", ""),
        ("raise ValueError('no')", "mine: ValueError: no"),
    ],
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
        assert render(report(), "mine") == "mine: 20260101-000000-abc"
    else:
        with pytest.raises(UsageError, match=said):
            render(report(), "mine")


def test_json_is_the_report() -> None:
    assert json.loads(render(report(), "json")) == report()


def test_an_unknown_format_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="choose from"):
        render(report(), "docx")
