"""Energy curves against analytic truth."""

from __future__ import annotations

import numpy as np
import pytest

from probe.attribution.meter.energy_curve import EnergyCurve
from tests.fakes.energy_curves import from_counter, from_power

S = 1_000_000_000


def polled(power_w: float, period_s: float, poll_s: float, length_s: float, start: float = 0.0):
    """A counter that moves every ``period_s``, polled every ``poll_s``."""
    time_s = np.arange(start, length_s, poll_s)
    joules = np.floor(time_s / period_s) * period_s * power_w + 1234.5
    return (time_s * S).astype(np.int64), joules, np.zeros(len(time_s), np.int64)


def test_constant_power_gives_its_energy_over_any_window() -> None:
    curve = from_counter(*polled(250.0, 0.1, 0.01, 10.0))
    assert curve is not None
    used = np.diff(curve.at(np.array([2 * S, 6 * S])))[0]
    assert used == pytest.approx(1000.0, abs=0.1)
    assert curve.period_s == pytest.approx(0.1, rel=0.02)
    assert curve.mean_power_w() == pytest.approx(250.0, rel=1e-3)


def test_beyond_the_updates_the_curve_goes_on_and_says_how_far() -> None:
    curve = from_counter(*polled(250.0, 0.1, 0.01, 4.0))
    assert curve is not None
    assert np.diff(curve.at(np.array([0, 4 * S])))[0] == pytest.approx(1000.0, rel=1e-2)
    share = curve.measured_share(0, 4 * S)
    assert 0.9 < share < 1.0


def test_a_wrapping_counter_goes_on() -> None:
    time_ns, joules, span = polled(100.0, 0.01, 0.01, 5.0)
    curve = from_counter(time_ns, joules % 60.0, span, wrap_j=60.0)
    assert curve is not None
    assert curve.resets == 0
    assert np.diff(curve.at(np.array([1 * S, 4 * S])))[0] == pytest.approx(300.0, rel=1e-3)


def test_a_reset_is_counted_and_never_negative() -> None:
    time_ns, joules, span = polled(100.0, 0.1, 0.01, 6.0)
    joules[300:] -= joules[300] - 1.0  # the driver was reloaded
    curve = from_counter(time_ns, joules, span)
    assert curve is not None
    assert curve.resets == 1
    assert np.all(np.diff(curve.joules) >= 0)
    assert np.diff(curve.at(np.array([0, 6 * S])))[0] == pytest.approx(590.0, abs=15)


def test_a_fresh_value_is_dated_at_its_read_not_between_two() -> None:
    """100 ms at 200 W of a counter that is never older than 1 ms, read every 20 ms."""
    time_s = np.arange(0, 2, 0.02)
    joules = np.interp(time_s, [0, 1.0, 1.1, 2.0], [1.0, 1.0 + 50, 51 + 20, 71 + 45])
    time_ns = (time_s * S).astype(np.int64)
    span = np.zeros(len(time_s), np.int64)
    block = np.array([S, 11 * S // 10])
    fresh = from_counter(time_ns, joules, span, resolution_s=0.001)
    assert fresh is not None
    assert np.diff(fresh.at(block))[0] == pytest.approx(20.0, rel=0.02)
    unknown = from_counter(time_ns, joules, span)
    assert unknown is not None
    assert np.diff(unknown.at(block))[0] < 19.0


@pytest.mark.parametrize("changes", [0, 1])
def test_a_counter_that_hardly_moved_says_nothing(changes: int) -> None:
    joules = np.full(50, 7.0)
    joules[25:] += changes
    time_ns = np.arange(50, dtype=np.int64) * 10_000_000
    assert from_counter(time_ns, joules, np.zeros(50, np.int64)) is None


def test_power_is_integrated_by_trapezoid() -> None:
    time_ns = (np.array([0, 1, 2, 4]) * S).astype(np.int64)
    curve = from_power(time_ns, np.array([100.0, 200.0, 200.0, 100.0]))
    assert curve is not None
    assert curve.joules.tolist() == [0.0, 150.0, 350.0, 650.0]
    assert from_power(time_ns[:1], np.array([1.0])) is None


@pytest.mark.parametrize("thinned", [False, True])
def test_time_in_which_nothing_was_read_is_not_covered(thinned: bool) -> None:
    """640 of 660 s without samples are 3 %; a counter's energy across them is still known."""
    time_ns = np.concatenate([np.arange(0, 10, 0.1), np.arange(650, 660, 0.1)]) * 1e9
    curve = EnergyCurve(time_ns.astype(np.int64), time_ns / 1e9 * 250.0, 1e6, 0.1)
    if thinned:
        curve = curve.thinned(500_000_000)
    run = 0, 660 * 10**9
    assert curve.sampled_share(*run) == pytest.approx(20 / 660, abs=0.01)
    assert curve.measured_share(*run) > 0.99
    assert curve.sampled_share(0, 10 * 10**9) == pytest.approx(1.0, abs=0.02)
    assert curve.sampled_share(300 * 10**9, 400 * 10**9) == 0.0
