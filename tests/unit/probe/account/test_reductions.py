"""Made-up steps of a DDP rank: what is paired, what is left out, in one batch or many."""

from __future__ import annotations

import numpy as np
import pytest

from probe.account.reductions import Reductions, row
from probe.ring.layout import REDUCTIONS_WARM_UP, Code, CommCode, Record
from probe.ring.reader import SLOT_DTYPE
from probe.spans import SpanDecoder

MS = 1_000_000


def edges(
    steps: int, lengths: list[float], syncs: list[int], adding_ms: float | None = None
) -> np.ndarray:
    """Steps of so many micro-batches; a backward takes what ``lengths`` says, in ms."""
    told: list[tuple[int, int, int, int]] = []
    now = MS
    for step in range(steps):
        for length, sync in zip(lengths, syncs, strict=True):
            told.append((now, Record.SYNC, sync, 0))
            told.append((now, Record.MARK, Code.FORWARD, -1))
            told.append((now + 2 * MS, Record.MARK, Code.BACKWARD, -1))
            now += 2 * MS + round(length * MS) + (step % 3) * 1000
            told.append((now, Record.MARK, Code.OTHER, -1))
            now += MS
        if adding_ms is not None:
            told.append((now, Record.COMM, CommCode.ADDING, round(adding_ms * MS)))
        told.append((now, Record.STEP, len(lengths), step))
    rows = np.zeros(len(told), SLOT_DTYPE)
    for place, (time_ns, kind, code, payload) in enumerate(told):
        rows[place] = (time_ns, payload, place + 1, kind, code, 0)
    return rows


def fed(rows: np.ndarray, batch: int) -> Reductions:
    found, decoder = Reductions(), SpanDecoder()
    for begin in range(0, len(rows), batch):
        part = rows[begin : begin + batch]
        found.feed(part, decoder.feed(part))
    found.feed(rows[:0], decoder.finish())
    return found


@pytest.mark.parametrize("batch", [7, 100_000])
def test_the_backward_that_reduces_less_the_others_without_the_first(batch: int) -> None:
    found = fed(edges(40, [5.0, 8.0, 8.0, 20.0], [0, 0, 0, 1]), batch)
    # The last step is not closed by another.
    assert found.cost.number == 39 - REDUCTIONS_WARM_UP
    assert found.cost.mean() == pytest.approx(12e-3, rel=1e-3)
    told = row(3, "here", found.state(), None)
    assert told is not None and told["rank"] == 3
    low, high = told["cost_s_interval"]
    assert low <= told["cost_s"] <= high
    assert told["contention_s"] is None  # without timers nobody knows what of it was exposed


def test_of_two_the_first_has_to_do_and_that_is_said() -> None:
    found = fed(edges(30, [5.0, 9.0], [0, 1]), 50)
    assert found.cost.mean() == pytest.approx(4e-3, rel=1e-3)
    told = row(0, "", found.state(), None)
    assert told is not None and "at most" in told["method"]


def test_what_the_second_adds_is_taken_off_where_it_was_timed() -> None:
    found = fed(edges(30, [5.0, 9.0], [0, 1], adding_ms=1.5), 50)
    told = row(0, "", found.state(), None)
    assert told is not None and told["cost_s"] == pytest.approx(2.5e-3, rel=1e-3)
    assert "at most" not in told["method"] and "timed apart" in told["method"]
    low, high = told["cost_s_interval"]
    assert low <= told["cost_s"] <= high
    four = row(0, "", fed(edges(30, [5.0, 5.0, 5.0, 9.0], [0, 0, 0, 1]), 50).state(), None)
    assert four is not None and "at most" not in four["method"]


@pytest.mark.parametrize("syncs", [[1, 1], [0, 0], [1], []])
def test_without_both_kinds_in_a_step_nothing_is_claimed(syncs: list[int]) -> None:
    found = fed(edges(30, [5.0] * len(syncs), syncs), 50) if syncs else Reductions()
    assert found.cost.mean() is None
    assert row(0, "", found.state(), None) is None
    assert row(0, "", found.state(), 0.0) is None


def test_timers_are_told_beside_and_never_added() -> None:
    rows = edges(20, [5.0, 25.0], [0, 1])
    timed = np.zeros(12, SLOT_DTYPE)
    timed["kind"], timed["time_ns"] = Record.COMM, int(rows["time_ns"][-1])
    timed["code"] = [CommCode.BUSY, CommCode.EXPOSED] * 6
    timed["payload"] = [18 * MS, 6 * MS] * 6
    found = fed(rows, 1000)
    found.feed(timed, None)
    told = row(0, "", found.state(), 1e-3)
    assert told is not None
    assert told["busy_s"] == pytest.approx(18e-3)
    assert told["exposed_s"] == pytest.approx(6e-3)
    assert told["cost_s"] == pytest.approx(20e-3, rel=1e-3)
    assert told["contention_s"] == pytest.approx(14e-3, rel=1e-2)
    assert told["blocking_s"] == 1e-3
