"""The interval between checkpoints against a simulation of failures."""

from __future__ import annotations

import numpy as np
import pytest

from probe.compare.checkpoint_interval import best_interval_s


def lost(interval_s: float, cost_s: float, failure_s: float, failures: np.ndarray) -> float:
    """Wall time per second of kept training, with failures at random times."""
    kept = wall = 0.0
    for until in failures * failure_s:
        done = int(until // (interval_s + cost_s))  # checkpoints that were completed before it
        kept += done * interval_s
        wall += until
    return wall / kept if kept else float("inf")


@pytest.mark.parametrize(
    ("cost_s", "failure_s"), [(1.0, 1_000.0), (20.0, 3_600.0), (60.0, 2_000.0)]
)
def test_no_other_interval_loses_less(cost_s: float, failure_s: float) -> None:
    failures = np.random.default_rng(5).exponential(1.0, 60_000)
    best = best_interval_s(cost_s, failure_s)
    loss = {scale: lost(scale * best, cost_s, failure_s, failures) for scale in (0.4, 1.0, 2.5)}
    assert loss[1.0] < loss[0.4] and loss[1.0] < loss[2.5]
    searched = [
        lost(scale * best, cost_s, failure_s, failures) for scale in np.linspace(0.3, 3, 28)
    ]
    assert loss[1.0] <= 1.01 * min(searched)


def test_a_checkpoint_dearer_than_the_time_between_failures() -> None:
    assert best_interval_s(100.0, 40.0) == 40.0
