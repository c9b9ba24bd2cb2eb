"""Percentages as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from probe.report import rank_tables
from probe.report.text_tables import percent


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
    def row(rank: int, phase: str, seconds: float, count: int) -> dict[str, Any]:
        return {"device": f"rank{rank}", "phase": phase, "time_s": seconds, "count": count}

    report = {
        "run": {"ranks": 2},
        "ranks": [{"rank": 0}, {"rank": 1}],
        "phases": [
            {"device": "cpu", "phase": "unattributed", "time_s": 9.0, "count": 1},
            row(0, "forward", 1.0, 10),
            row(0, "unattributed", 2.0, 0),
            row(1, "forward", 2.0, 10),
            row(1, "unattributed", 1.0, 0),
        ],
    }
    (table,) = rank_tables.all_ranks(report)
    assert table.title == "all 2 ranks"
    assert table.rows == [
        ["forward", "20", "3.00 s", "50.0 %"],
        ["unattributed", "", "3.00 s", "50.0 %"],
    ]
    assert rank_tables.all_ranks(report | {"ranks": [{"rank": 0}]}) == []
