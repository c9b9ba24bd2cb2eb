"""Counters with faults, read by a recorder that stalls, through all that makes a report's rows."""

from __future__ import annotations

import numpy as np
import pytest

from probe.attribution.arrays import Floats
from probe.attribution.meter.update_times import CounterUpdateFinder
from probe.attribution.meter.updates import Updates
from tests.fakes.read_schedules import closure, outcome, random_schedule


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_schedule_raises_and_rows_add_up() -> None:
    """benchmarks/energy/read_schedules.py goes through 2,000 of them."""
    seen = 0
    for seed in range(8):
        result = outcome(random_schedule(seed, 20.0))
        if result.energy_j is not None:
            assert closure(result) <= 1e-9, seed
            seen += 1
    assert seen >= 6


def updates_of(time_s: Floats, joules: Floats) -> Updates:
    finder = CounterUpdateFinder()
    parts = [finder.feed(time_s, np.full(len(time_s), 1e-4), joules), finder.finish()]
    return Updates.concat(parts)


@pytest.mark.parametrize(("count", "pause_s"), [(5, 0.5), (10, 0.3), (60, 0.4), (2, 30.0)])
@pytest.mark.parametrize("then_s", [0.0, 5.0])
def test_reads_that_pause_leave_the_counter_whole(
    count: int, pause_s: float, then_s: float
) -> None:
    """After 20 s of close reads a busy machine reads some times only: once a division by zero."""
    close = np.arange(0.0, 20.0, 0.01)
    pauses = 20.0 + pause_s * np.arange(1, count + 1)
    after = pauses[-1] + np.arange(0.01, then_s, 0.01)
    time = np.concatenate([close, pauses, after])
    updates = updates_of(time, np.floor(time / 0.1) * 25.0)
    assert (np.diff(updates.time_s) > 0).all()
    end_j = np.floor(time[-1] / 0.1) * 25.0
    assert updates.joules[-1] == pytest.approx(end_j, abs=26.0 + 250 * pause_s)


@pytest.mark.parametrize("period_s", [0.001, 0.005, 0.01, 0.0125, 0.015])
@pytest.mark.parametrize("every_s", [0.003, 0.011, 0.05, 0.4])
def test_fast_counters_are_dated_within_their_reads(period_s: float, every_s: float) -> None:
    time = np.arange(0.0, 20.0, every_s)
    updates = updates_of(time, np.floor(time / period_s) * period_s * 250.0)
    assert len(updates) > 5 and (np.diff(updates.time_s) > 0).all()
    truth = np.interp(updates.time_s, time, time * 250.0)
    first = truth[0] - updates.joules[0]
    assert np.abs(updates.joules + first - truth).max() <= 250.0 * (2 * every_s + 2 * period_s)
