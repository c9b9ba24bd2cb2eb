"""The counter's health check and the gap log. Pure."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from probe.model import Gap
from probe.sensors._gap_log import GapLog
from probe.sensors.nvml.counter_check import CounterHealth, Verdict
from probe.store.reader import joined_gaps

S = 1_000_000_000


def window(gain: float, spread: float = 0.0, seed: int = 0) -> Verdict:
    """20 s of a 300 W device whose counter shows ``gain`` of the truth."""
    health, random = CounterHealth(), Random(seed)
    for tick in range(201):
        now = tick * S // 10
        health.counter(now, gain * 300 * now / 1e6)
        if tick % 5 == 0:
            verdict = health.power(now, 300e3 * (1 + spread * random.uniform(-1, 1)))
            if verdict is not None:
                return verdict
    raise AssertionError("no verdict in 20 s")


@pytest.mark.parametrize(
    ("gain", "disagrees"), [(1.0, False), (1.02, False), (0.95, True), (1.05, True), (1 / 6, True)]
)
def test_three_percent_is_the_limit_under_steady_power(gain: float, disagrees: bool) -> None:
    verdict = window(gain)
    assert verdict.disagrees is disagrees
    assert verdict.ratio == pytest.approx(gain, rel=0.005)


def test_sampling_error_is_allowed_for() -> None:
    assert not any(window(1.0, spread=0.6, seed=seed).disagrees for seed in range(100))
    assert all(window(1 / 6, spread=0.3, seed=seed).disagrees for seed in range(100))


def test_a_counter_that_stands_still_disagrees() -> None:
    health = CounterHealth()
    health.counter(0, 1000.0)
    verdicts = [health.power(tick * S, 300e3) for tick in range(40)]
    assert any(verdict is not None and verdict.disagrees for verdict in verdicts)


def test_gaps_join_without_a_seam_and_stay_few() -> None:
    log = GapLog("x", 0)
    log.good(1 * S)
    gaps = [log.bad(tick * S // 2, "lost") for tick in range(3, 2000)]
    reported = [gap for gap in gaps if gap is not None]
    rest = log.good(1000 * S)
    assert rest is not None
    reported.append(rest)
    assert len(reported) <= 13
    (whole,) = joined_gaps(reported)
    assert (whole.begin_ns, whole.end_ns) == (1 * S, 1000 * S) and whole.count >= 1997
    assert (reported[0].begin_ns, reported[-1].end_ns) == (1 * S, 1000 * S)
    assert all(a.end_ns == b.begin_ns for a, b in itertools.pairwise(reported))
    assert sum(gap.count for gap in reported) >= 1997
    assert log.good(1001 * S) is None


def test_the_first_failure_is_reported_at_once() -> None:
    log = GapLog("x", 5)
    assert log.bad(7, "why") == Gap("x", 5, 7, "why", 1)
