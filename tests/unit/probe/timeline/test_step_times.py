"""The usual step's time, whatever lies before it and between."""

from __future__ import annotations

import numpy as np
import pytest

from probe.timeline.step_times import StepDurations

MS = 1_000_000


def times(durations_ms: list[float], *, portions: int = 1) -> StepDurations:
    closed = np.cumsum(np.array([5.0, *durations_ms]) * MS).astype(np.int64)
    durations = StepDurations()
    for part in np.array_split(closed, portions):
        durations.add(part)
    return durations


def test_slow_first_steps_and_rare_evaluations_do_not_move_the_median() -> None:
    """nanoGPT compiled: 5.73 s per step were reported for 16 ms."""
    steps = [9000.0, 400.0, 60.0] + ([16.0] * 9 + [1500.0]) * 8
    durations = times(steps).times()
    assert durations is not None
    assert durations.median_s == pytest.approx(0.016, rel=0.003)
    assert durations.low_s == pytest.approx(0.016, rel=0.003)
    assert durations.left_out == 3


def test_at_most_twenty_steps_are_left_out() -> None:
    durations = times([100.0] * 30 + [10.0] * 100).times()
    assert durations is not None and durations.left_out == 20


@pytest.mark.parametrize("portions", [1, 2, 7])
def test_portions_do_not_matter(portions: int) -> None:
    random = np.random.default_rng(3)
    steps = random.lognormal(3, 0.5, 500)
    durations = times(steps.tolist(), portions=portions).times()
    assert durations is not None
    kept = steps[durations.left_out :]
    for seconds, share in ((durations.low_s, 25), (durations.median_s, 50), (durations.high_s, 75)):
        assert seconds == pytest.approx(np.percentile(kept, share) / 1e3, rel=0.01)


def test_one_step_has_no_time() -> None:
    assert times([]).times() is None
