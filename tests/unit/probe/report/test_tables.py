"""Percentages as people write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from probe.report import rank_tables
from probe.report.model import PhaseRow, RankRow
from probe.report.text_tables import percent
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


def test_the_main_table_of_several_ranks_is_their_sum() -> None:
    def row(device: str, phase: str, seconds: float, count: int) -> PhaseRow:
        return phase_row(phase, None, device=device, time_s=seconds, count=count)

    report = report_of_rows(
        row("cpu", "unattributed", 9.0, 1),
        row("rank0", "forward", 1.0, 10),
        row("rank0", "unattributed", 2.0, 0),
        row("rank1", "forward", 2.0, 10),
        row("rank1", "unattributed", 1.0, 0),
    )
    ranks = tuple(
        RankRow(rank=rank, host="h", devices=(), steps=10, energy_j=None) for rank in (0, 1)
    )
    report = replace(report, run=replace(report.run, ranks=2), ranks=ranks)
    (table,) = rank_tables.all_ranks(report)
    assert table.title == "all 2 ranks"
    assert table.rows == [
        ["forward", "20", "3.00 s", "50.0 %"],
        ["unattributed", "", "3.00 s", "50.0 %"],
    ]
    assert rank_tables.all_ranks(replace(report, ranks=ranks[:1])) == []
