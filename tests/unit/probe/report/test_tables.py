"""Tables of a report: percentages, sums over devices, narrow screens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from probe.model import Provenance
from probe.report import phase_tables, rank_tables
from probe.report.all_devices import MODELLED, TIMED, all_devices
from probe.report.model import PhaseRow, PipelineRow, PipelineWaiting, RankRow
from probe.report.text_tables import Table, percent, signed_percent
from tests.fakes.reports import phase_row, report_of_rows


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ""),
        (0.0, "0 %"),
        (9.381, "9.38 %"),
        (-55.72, "−55.7 %"),
        (1650.4, "1650 %"),
        (-1_234_567.0, "−1230000 %"),
        (0.0614, "0.0614 %"),
        (-0.00002, "under 0.001 %"),
    ],
)
def test_three_digits_and_no_powers_of_ten(value: float | None, said: str) -> None:
    assert percent(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(9.381, "+9.38 %"), (-55.72, "−55.7 %"), (0.0, "0 %"), (0.00002, "under 0.001 %")],
)
def test_a_change_has_a_sign_where_it_has_digits(value: float, said: str) -> None:
    assert signed_percent(value) == said


def test_the_main_table_of_several_ranks_is_their_sum() -> None:
    def row(device: str, phase: str, seconds: float, count: int) -> PhaseRow:
        return phase_row(phase, None, device=device, time_s=seconds, count=count)

    report = report_of_rows(
        phase_row("unattributed", 5.0, device="cpu", provenance=Provenance.MODELLED),
        row("rank0", "forward", 1.0, 10),
        row("rank0", "unattributed", 2.0, 0),
        row("rank1", "forward", 2.0, 10),
        row("rank1", "unattributed", 1.0, 0),
    )
    ranks = tuple(
        RankRow(rank=rank, host="h", devices=(), steps=10, energy_j=None) for rank in (0, 1)
    )
    report = replace(report, run=replace(report.run, ranks=2), ranks=ranks)
    timed, modelled = all_devices(report)
    assert (timed.kind, modelled.kind) == (TIMED, MODELLED)
    table = phase_tables.together(timed, report)
    assert table.title == "all 2 ranks, the mean of one"
    assert table.rows == [
        ["forward", "50.0 %", "1.50 s", "10"],
        ["unattributed", "50.0 %", "1.50 s", ""],
    ]


def test_what_one_device_refuses_has_no_sum() -> None:
    """gpu1 knows of forward what gpu0 does not: it moves to what is not told apart."""
    report = report_of_rows(
        phase_row("forward", 100.0, device="gpu1"),
        phase_row("backward", 50.0, device="gpu1"),
        phase_row("forward", None, device="gpu0", bounds_j=(10.0, 60.0)),
        phase_row("backward", 30.0, device="gpu0"),
        phase_row("unresolved", 20.0, device="gpu0"),
    )
    (table,) = all_devices(report)
    rows = {row.phase: row for row in table.phases}
    assert rows["forward"].energy_j is None and rows["forward"].bounds_j is not None
    assert rows["backward"].energy_j == 80.0
    assert rows["unresolved"].energy_j == 120.0 and table.energy_j == 200.0


def test_a_narrow_table_leaves_columns_out_and_breaks_words_only_between_them() -> None:
    table = Table(
        "a title of several words", ["name", "first number", "second", "how it came about"],
        [["backward", "12.5 kJ", "1.25 s", "collectives that are waited for"]],
        frozenset({0, 3}), optional=(2,),
    )  # fmt: skip
    assert len(table.lines()) == 3
    narrow = table.lines(40)
    assert max(map(len, narrow)) <= 40 and "1.25 s" not in " ".join(narrow)
    assert " ".join(" ".join(narrow).split()).count("waited") == 1
    assert "12.5 kJ" in " ".join(narrow)


def test_a_column_without_a_word_takes_no_room() -> None:
    """As that of percent where no energy was measured."""
    table = Table("t", ["", "time", ""], [["clipping", "1.2 s", ""], ["all", "3.4 s", ""]])
    assert [line.split() for line in table.lines()[1:]] == [
        ["time"],
        ["clipping", "1.2", "s"],
        ["all", "3.4", "s"],
    ]
    assert table.lines(40) == table.lines()


def test_bubble_and_transfer_of_a_pipeline_are_shares_of_a_step() -> None:
    def row(rank: int, bubble_s: float, transfer_s: float) -> PipelineRow:
        waiting_s = bubble_s + transfer_s
        return PipelineRow(
            rank=rank, step_s=0.4, waiting_s=waiting_s, bubble_s=bubble_s, transfer_s=transfer_s
        )

    waiting = PipelineWaiting(method="a replay", ranks=(row(0, 0.1, 0.02), row(1, 0.06, 0.02)))
    report = replace(report_of_rows(phase_row("forward", 5.0)), pipeline=waiting)
    (table,) = rank_tables.tables(report)
    assert "a replay" in table.title
    assert table.rows[0] == ["rank0", "120 ms", "30.0 %", "100 ms", "25.0 %", "20.0 ms", "5.0 %"]
    (line,) = rank_tables.lines(report)
    assert line == "pipeline, per step of a rank: bubble 80.0 ms (20.0 %), transfer 20.0 ms (5.0 %)"


def test_a_pipeline_that_is_not_told_apart_says_why() -> None:
    pipeline = PipelineWaiting(method="not told apart: it rained")
    report = replace(report_of_rows(phase_row("forward", 5.0)), pipeline=pipeline)
    (table,) = rank_tables.tables(report)
    assert table.rows == [["not told apart: it rained"]]
    assert rank_tables.lines(report) == [
        "bubble and transfer of the pipeline are not told apart: it rained"
    ]
