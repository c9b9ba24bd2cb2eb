"""The time split closes the account and its bounds hold the truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.attribution.columns import UNATTRIBUTED
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.attribution.time_split import split as shares_of
from tests.fakes.energy_curves import from_counter

MS = 1_000_000
S = 1_000_000_000


def split(curve, begin, end, code, run, highest_w):
    """(energy by phase, the rest) for a known highest power."""
    shares = shares_of(curve, begin, end, code, run, np.array([highest_w])).bounded(highest_w)
    return shares, shares.pop(UNATTRIBUTED)


def truth(phases: list[tuple[float, float]], repeats: int, period_s: float):
    """Spans of a repeated step with known power per phase, and the counter seen at its updates."""
    lengths = np.tile([p[0] for p in phases], repeats)
    watts = np.tile([p[1] for p in phases], repeats)
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    joules = np.concatenate([[0.0], np.cumsum(lengths * watts)])
    updates = np.arange(0, edges[-1], period_s)
    reads = np.sort(np.concatenate([updates + 1e-4, updates - 1e-4])[1:])
    held = np.interp(np.floor(reads / period_s + 1e-9) * period_s, edges, joules)
    curve = from_counter((reads * S).astype(np.int64), held, np.zeros(len(reads), np.int64))
    begin = (edges[:-1] * S).astype(np.int64)
    end = (edges[1:] * S).astype(np.int64)
    code = np.tile(np.arange(1, len(phases) + 1), repeats)
    energy = {i + 1: repeats * p[0] * p[1] for i, p in enumerate(phases)}
    return curve, begin, end, code, energy


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.002, 0.4), st.floats(30, 700)), min_size=1, max_size=5),
    st.floats(0.02, 0.2),
)
def test_bounds_hold_the_truth_and_the_account_closes(
    phases: list[tuple[float, float]], period_s: float
) -> None:
    repeats = max(4, math.ceil(4.0 / sum(p[0] for p in phases)))
    curve, begin, end, code, energy = truth(phases, repeats, period_s)
    run = (0, int(end[-1]) + S // 2)
    joules, rest = split(curve, begin, end, code, run, 770.0)
    total = float(np.diff(curve.at(np.array(run)))[0])
    assert math.isclose(
        sum(p.energy_j for p in joules.values()) + rest.energy_j, total, rel_tol=1e-9
    )
    for key, true in energy.items():
        part = joules[key]
        assert part.low_j <= part.energy_j <= part.high_j
        assert part.low_j - 0.15 * period_s * 770 <= true <= part.high_j + 0.15 * period_s * 770


def test_a_phase_longer_than_the_period_is_known_well() -> None:
    curve, begin, end, code, energy = truth([(5.0, 400.0), (5.0, 100.0)], 3, 0.1)
    joules, _ = split(curve, begin, end, code, (0, int(end[-1])), 700.0)
    for key, true in energy.items():
        assert abs(joules[key].energy_j - true) < 0.02 * true
        assert joules[key].high_j - joules[key].low_j < 0.12 * true


def test_a_phase_far_shorter_than_the_period_is_wide() -> None:
    curve, begin, end, code, _ = truth([(0.002, 100.0), (0.030, 400.0)], 200, 0.1)
    joules, _ = split(curve, begin, end, code, (0, int(end[-1])), 700.0)
    small = joules[1]
    assert small.low_j == 0.0
    assert small.high_j > 1.3 * small.energy_j


def test_the_rest_of_the_run_is_the_remainder() -> None:
    knots = np.arange(0, 11, dtype=np.int64) * S
    curve = EnergyCurve(knots, np.arange(0, 11) * 100.0, 0.0, 1.0)
    joules, rest = split(
        curve, np.array([2 * S]), np.array([5 * S]), np.array([3]), (0, 10 * S), 300.0
    )
    assert joules[3].energy_j == 300.0
    assert rest.energy_j == 700.0
    assert rest.time_ns == 7 * S
    assert (joules[3].low_j, joules[3].high_j) == (300.0, 300.0)


def test_bounds_for_many_powers_are_those_of_the_formula_interval_by_interval() -> None:
    rng = np.random.default_rng(0)
    knots = (np.arange(1, 41) * 0.1 * S).astype(np.int64)  # nothing is measured before and after
    curve = EnergyCurve(knots, np.cumsum(rng.uniform(0, 60, 40)), 0.002 * S, 0.1)
    borders = np.sort(rng.integers(0, 5 * S, 80))
    begin, end, code = borders[::2], borders[1::2], np.tile([1, 2], 20)
    powers = np.array([50.0, 300.0, 700.0, 5000.0])
    shares = shares_of(curve, begin, end, code, (0, 5 * S), powers)
    rows = np.concatenate([[0], knots, [5 * S]])
    for phase in (1, 2):
        low, high = np.zeros(4), np.zeros(4)
        for a, b in itertools.pairwise(rows):
            inside = np.minimum(end, b) - np.maximum(begin, a)
            t = inside[(code == phase) & (inside > 0)].sum() / S
            if not t:
                continue
            length, joules = (b - a) / S, np.diff(curve.at(np.array([a, b])))[0]
            measured = a >= knots[0] and b <= knots[-1]
            less = length if t >= length * (1 - 1e-9) else max(0.0, t - 0.002)
            most = powers * min(length, t + 0.002)
            if measured:
                low += np.maximum(0.0, joules - powers * (length - less))
            high += np.minimum(joules, most) if measured else most
        np.testing.assert_allclose(shares.of[phase].low_j, low, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(shares.of[phase].high_j, high, rtol=1e-9)
