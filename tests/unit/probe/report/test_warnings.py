"""Warnings of a report: a slow first visit of a phase; a forward that was not seen."""

from __future__ import annotations

import pytest

from probe.report.build.warnings import slow_first_visits, unseen_forward
from probe.timeline.phase_totals import PhaseTotals

NAMES = {1: "forward", 2: "eval", 3: "other", 4: "backward", 5: "forward/mlp"}


@pytest.mark.parametrize(
    ("code", "count", "first_s", "spent_s", "is_named"),
    [
        (1, 100, 3.0, 4.0, True),
        (1, 100, 1.0, 4.0, False),  # a quarter of the phase
        (1, 100, 0.2, 0.3, False),  # little of the run
        (1, 5, 3.0, 4.0, False),  # few visits: each may be long
        (2, 1, 3.0, 3.0, False),
        (3, 100, 3.0, 4.0, False),  # between the phases anything may happen
    ],
)
def test_a_slow_first_visit(
    code: int, count: int, first_s: float, spent_s: float, is_named: bool
) -> None:
    rank = PhaseTotals(
        0, NAMES, {code: spent_s}, {code: count}, {}, 100, 0.0, first_s={code: first_s}
    )
    lines = slow_first_visits([rank, rank], run_s=20.0)
    assert len(lines) == is_named
    assert all("the first visit of forward took 3.00 s of its 4.00 s" in line for line in lines)


@pytest.mark.parametrize(
    ("counts", "is_named"),
    [
        ({4: 30, 3: 30}, True),  # a training step that is one compiled function
        ({4: 30, 1: 1}, False),
        ({4: 30, 5: 30}, False),
        ({4: 9}, False),  # too little to be a training
        ({2: 100}, False),
    ],
)
def test_a_forward_that_was_not_seen(counts: dict[int, int], is_named: bool) -> None:
    rank = PhaseTotals(0, NAMES, dict.fromkeys(counts, 1.0), counts, {}, 30, 0.0)
    lines = unseen_forward([rank])
    assert len(lines) == is_named
    assert all(line.startswith("no forward was seen, so its time is in `other`") for line in lines)
