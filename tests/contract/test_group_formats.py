"""Every format of a group says the same: its figures are read back and compared with the truth."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from probe.report.formats import formats, render
from probe.report.formats.text import Shape, shaped
from probe.report.group_model import GroupReport
from tests.contract.test_read_back import html_rows, markdown_rows, text_rows
from tests.fakes.reports import group_report
from tests.fakes.written_figures import figure

# What every format has to show: name, steps, seconds, joules (a word where none is known), status.
Line = tuple[str, int | None, float, float | str, str]
EXPECTED: list[Line] = [
    ("sweep --lr=1", 10, 10.0, 400.0, "finished"),
    ("sweep --lr=2", 20, 10.0, 312.5, "failed"),
    ("sweep --lr=3", 30, 10.0, "shared", "finished"),
    ("sweep --lr=4", 40, 10.0, "shared", "finished"),
    ("shared by 2 at the same time", None, 10.5, 987.0, ""),
    ("in no training", None, 9.0, 300.5, ""),
    ("all", 100, 40.0, 2000.0, ""),
]
ANSWER = (
    "training 1 (sweep --lr=1) takes 20.0 % of the energy",
    "2.00 ± 0.05 kJ · 0.200 g CO2e · 0.00100 EUR · 4 trainings: 3 finished, 1 failed",
    "training 2: ValueError: sweep",
)
OPENED = "probe report 20260101-000000-abc/1"


def agree(rows: Iterable[list[str]]) -> None:
    """Rows of the table of trainings, each [name, energy, duration, steps, status]."""
    read = list(rows)
    assert [cells[0] for cells in read] == [line[0] for line in EXPECTED]
    for cells, (_, steps, seconds, joules, status) in zip(read, EXPECTED, strict=True):
        if isinstance(joules, str):
            assert cells[1] == joules
        else:
            assert figure(cells[1]).agrees(joules), cells
        assert figure(cells[2]).agrees(seconds), cells
        assert cells[3] == ("" if steps is None else str(steps))
        assert cells[4] == status


def named(rows: Iterable[dict[str, str]]) -> list[list[str]]:
    """The table of trainings among the tables of a page, its first column left out."""
    return [
        [row[name] for name in ("training", "energy", "duration", "steps", "status")]
        for row in rows
        if "training" in row
    ]


def aligned(text: str) -> list[list[str]]:
    """The same of a text with columns; what is empty has no place there."""
    table_rows = []
    for cells in text_rows(text):
        own = cells[1:] if cells[0].isdigit() else cells
        own[0] = re.sub(r"^\d (?=\S)", "", own[0])  # the number may stand close, too
        line = next((line for line in EXPECTED if line[0] == own[0]), None)
        if line is None or len(own) < 3:
            continue
        status = line[4]
        if status and own[-1].endswith(f" {status}"):  # a PDF's columns stand close
            own = [*own[:-1], own[-1].removesuffix(f" {status}"), status]
        table_rows.append([*own, *[""] * (5 - len(own))])
        if own[0] == "all":
            break  # the tables of each training follow
    return table_rows


def test_the_account_of_the_fake_is_right() -> None:
    group = group_report().group
    parts = [member.energy_j for member in group.members]
    parts += [group.shared.energy_j, group.rest.energy_j]
    assert sum(joules for joules in parts if joules is not None) == group.total.energy_j


def test_text() -> None:
    text = shaped(group_report(), Shape(width=100))
    lines = text.splitlines()
    assert lines[:3] == [ANSWER[0], ANSWER[1], f"! {ANSWER[2]}"]
    agree(aligned(text))
    assert OPENED in text
    assert shaped(group_report(), Shape(short=True)).splitlines()[:3] == list(ANSWER)


def test_markdown() -> None:
    text = html.unescape(str(render(group_report(), "md")))
    assert f"### {ANSWER[0]}\n\n**{ANSWER[1]}**\n\n⚠ {ANSWER[2]}" in text
    agree(named(markdown_rows(str(render(group_report(), "md")))))
    assert f"`{OPENED}`" in text


def test_html() -> None:
    page = str(render(group_report(), "html"))
    plain = html.unescape(page).replace("\u00a0", " ")
    assert f"<h1>{ANSWER[0]}</h1><p class='used'>{ANSWER[1]}</p>" in plain
    assert f"<p class='limit'>{ANSWER[2]}</p>" in plain
    agree(named(html_rows(page, "no.")))
    assert f"<code>{OPENED}</code>" in page
    assert page.count("<details>") >= 4, "each training's phases are a click away"
    phases = list(html_rows(page, "phase"))
    assert [row["phase"] for row in phases].count("forward") == 4
    devices = {row["device"]: row for row in html_rows(page, "device")}
    assert {"gpu0", "gpu1"} == set(devices), "a meter that trainings share stands there once"
    assert figure(devices["gpu0"]["energy"]).agrees(1500.0)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
def test_pdf(tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    file.write_bytes(bytes(render(group_report(), "pdf")))  # type: ignore[arg-type]
    read = subprocess.run(
        ["pdftotext", "-layout", file, "-"], capture_output=True, check=True, text=True
    ).stdout
    words = " ".join(read.split())
    for line in ANSWER:
        assert line in words
    agree(aligned(read))
    assert OPENED in words


def test_csv_and_parquet_are_exact() -> None:
    import pyarrow.parquet as pq

    report = group_report()
    group = report.group
    rows = list(csv.DictReader(io.StringIO(str(render(report, "csv")))))
    kinds = [row["row"] for row in rows]
    assert kinds == [
        "group", "shared", "rest", "device", "device", *["training"] * 4, *["phase"] * 8,
    ]  # fmt: skip
    group_row, shared, rest = rows[:3]
    assert [float(row["energy_j"]) for row in rows[:3]] == [2000.0, 987.0, 300.5]
    assert (
        float(group_row["energy_j_low"]) == 1950.0 and float(group_row["energy_j_high"]) == 2050.0
    )
    assert float(group_row["co2e_g"]) == 0.2 and float(group_row["cost"]) == 0.001
    assert group_row["steps"] == "100" and group_row["member_status"] == "failed"
    assert float(shared["duration_s"]) == 10.5 and float(rest["duration_s"]) == 9.0
    counted = [row for row in rows if row["row"] == "device"]
    assert sum(float(row["energy_j"]) for row in counted) == 2000.0
    for row, member in zip(rows[5:9], group.members, strict=True):
        assert row["member"] == str(member.number) and row["run"] == member.id
        assert row["energy_j"] == ("" if member.energy_j is None else repr(member.energy_j))
        assert row["shared"] == str(member.shared).lower()
        assert row["steps"] == str(member.steps) and row["member_status"] == member.status
        assert float(row["duration_s"]) == member.duration_s
    for row, (number, phase) in zip(
        rows[9:],
        [(m.number, p) for m, run in zip(group.members, report.runs, strict=True)
         for p in run.phases],
        strict=True,
    ):  # fmt: skip
        assert (row["member"], row["phase"]) == (str(number), phase.phase)
        assert row["energy_j"] == ("" if phase.energy_j is None else repr(phase.energy_j))
    table = pq.read_table(io.BytesIO(bytes(render(report, "parquet"))))  # type: ignore[arg-type]
    typed = table.to_pylist()
    assert [row["row"] for row in typed] == kinds
    assert [row["energy_j"] for row in typed[:3]] == [2000.0, 987.0, 300.5]
    assert [row["member"] for row in typed[5:9]] == [1, 2, 3, 4]
    assert json.loads(table.schema.metadata[b"phasewatt"]) == report.to_dict()


def without_meters(report: GroupReport) -> GroupReport:
    group = report.group
    members = tuple(
        replace(member, energy_j=None, modelled_energy_j=None, shared=False)
        for member in group.members
    )
    nothing = replace(group.total, energy_j=None, energy_j_interval=None, modelled_energy_j=None)
    rest = replace(group.rest, energy_j=None, modelled_energy_j=None)
    alone = replace(group.shared, energy_j=None, modelled_energy_j=None, trainings=())
    return replace(
        report,
        group=replace(
            group, members=members, total=nothing, rest=rest, shared=alone, sources=()
        ),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["text", "md", "html"])
def test_without_a_meter_each_says_so(name: str) -> None:
    text = str(render(without_meters(group_report()), name))
    plain = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert plain.count("no meter") >= 5 and "no energy meter" in plain
    assert not re.search(r"\bnan\b|\bNone\b", plain)


HOSTILE = 'a|b <script>alert(1)</script> "q" `c` [l](http://x) @all =1+1 #eval("1") é' + "x" * 500


@pytest.mark.parametrize("name", [name for name in formats() if name != "mine"])
def test_a_hostile_name_stays_text(name: str) -> None:
    rendered = render(group_report(HOSTILE), name)
    if name == "html":
        assert "<script" not in str(rendered).lower()
    if name == "md":
        body = str(rendered).split("-->", 1)[1]
        assert "<" not in body and "@" not in body and "](" not in body
    assert len(rendered) > 200
