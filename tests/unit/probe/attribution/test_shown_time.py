"""Slices and columns, and what sensors show of them, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.attribution.columns import CROWD, LARGEST, UNATTRIBUTED, Columns, slices
from probe.attribution.response.response import Response
from probe.attribution.response.shown import ShownTime
from probe.attribution.spans import Spans, cut

STEP_S = 2e-6
PERIOD_S = 0.1
RESPONSES = [
    Response(),
    Response.of(0.0, 0.004),
    Response.of(0.012, 0.02),
    Response.averaging(0.005, 0.025),
    Response.part_time(0.01, 0.003),
    Response.part_time(0.01, 0.003, 0.004),
]


def spans_of(durations, codes):
    edges = np.concatenate([[0.0], np.cumsum(durations)])
    return Spans(edges[:-1], edges[1:], np.array(codes))


def columns_of(**wanted):
    columns = Columns()
    for code, number in wanted.items():
        columns.add(int(code[1:]), number)
    return columns


def scene(seed, number=60):
    rng = np.random.default_rng(seed)
    spans = spans_of(rng.uniform(0.001, 0.03, number), rng.integers(1, 4, number))
    columns = columns_of(c1=2, c2=1, c3=4)
    return rng, ShownTime(cut(spans, columns), columns.width, PERIOD_S)


def edges_of(shown):
    return np.append(shown.slices.begin_s, shown.slices.end_s[-1])


def kernel(response):
    """The response's weights of past time, in steps."""
    late = round(response.delay_s / STEP_S)
    if response.kind == "average":
        weight = np.full(round(response.window_s / STEP_S), 1.0)
    elif response.tau_s:
        weight = np.exp(-np.arange(0, 20 * response.tau_s, STEP_S) / response.tau_s)
    else:
        weight = np.ones(1)
    return np.concatenate([np.zeros(late), weight / weight.sum()])


def brute_force(shown, rate, ends_s, response):
    """Rows of a rate per slice, (n,), summed in steps of 2 µs."""
    from scipy.signal import oaconvolve

    grid = np.arange(0.0, ends_s[-1] + STEP_S, STEP_S)
    at = np.clip(np.searchsorted(edges_of(shown), grid, "right") - 1, 0, None)
    weight = kernel(response)
    settled = np.concatenate([np.full(len(weight), rate[0]), rate[at]])
    level = oaconvolve(settled, weight)[len(weight) : len(weight) + len(grid)]
    energy = np.concatenate([[0.0], np.cumsum(level) * STEP_S])
    until = np.interp(ends_s, np.append(grid, grid[-1] + STEP_S), energy)
    if response.kind != "part-time":
        return np.diff(until)
    rows = []
    for begin, end in itertools.pairwise(ends_s):
        number = max(1, round((end - begin) / PERIOD_S))
        at = end - np.arange(number) * (end - begin) / number
        inside = np.diff(np.interp(np.stack([at - response.part_s, at]), grid, energy[:-1]), axis=0)
        rows.append(inside.sum() * PERIOD_S / response.part_s)
    return np.array(rows)


def test_holes_are_filled_and_slices_add_up():
    spans = Spans(np.array([0.0, 2.0, 5.0]), np.array([1.0, 5.0, 6.0]), np.array([1, 2, 1]))
    whole = spans.filled()
    assert whole.code.tolist() == [1, UNATTRIBUTED, 2, 1]
    columns = Columns()
    for code, number in ((1, 2), (UNATTRIBUTED, 1), (2, 4)):
        columns.add(code, number)
    pieces = cut(whole, columns)
    assert len(pieces) == 2 + 1 + 4 + 2
    assert np.array_equal(pieces.begin_s[1:], pieces.end_s[:-1])
    assert pieces.end_s[-1] == 6.0
    begun = pieces.border[pieces.border >= 0]
    assert begun.tolist() == [columns.border_of(code) for code in (UNATTRIBUTED, 2, 1)]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), response=st.sampled_from(RESPONSES))
def test_rows_are_the_integrals_that_they_stand_for(seed, response):
    rng, shown = scene(seed)
    ends = np.sort(rng.uniform(0.1, edges_of(shown)[-1], 9))
    rows = shown.rows(ends, response)
    watts = rng.uniform(50, 500, len(shown.slices))
    energies = shown.energies(shown.powers(watts), ends, response)
    slices = shown.slices
    # The brute force is as coarse as its steps, a part-time row ten times that.
    coarse = 3e-4 if response.kind == "part-time" else 3e-5
    for column in rng.choice(np.unique(slices.column), 2, replace=False):
        rate = np.where(slices.column == column, 1.0, 0.0)
        assert rows[:, column] == pytest.approx(
            brute_force(shown, rate, ends, response), abs=coarse
        )
    count = int(slices.count[0])
    rate = np.where(slices.count == count, slices.per_s, 0.0)
    assert rows[:, count] == pytest.approx(
        brute_force(shown, rate, ends, response), abs=coarse * rate.max()
    )
    assert energies == pytest.approx(brute_force(shown, watts, ends, response), abs=0.2)


@pytest.mark.parametrize("response", RESPONSES, ids=str)
def test_power_that_moves_late_leaves_the_steps_energy_out(response):
    """A border column is what all steps of power into a phase, moved by 1 µs, change."""
    rng, shown = scene(4)
    slices = shown.slices
    watts = rng.uniform(50, 500, len(slices))
    ends = np.sort(rng.uniform(0.1, edges_of(shown)[-1] - 0.05, 9))
    begun = slices.border == slices.border[slices.border >= 0][0]
    steps = np.zeros((1, len(slices)))
    at = np.flatnonzero(begun)
    steps[0, at] = watts[at - 1] - watts[at]
    late = 1e-6
    begin, end = slices.begin_s.copy(), slices.end_s.copy()
    begin[at] += late
    end[at - 1] += late
    moved = ShownTime(
        type(slices)(begin, end, slices.column, slices.count, slices.border, slices.per_s),
        shown.width,
        PERIOD_S,
    )
    change = moved.energies(moved.powers(watts), ends, response)
    change -= shown.energies(shown.powers(watts), ends, response)
    assert shown.crossings(steps, ends, response)[:, 0] * late == pytest.approx(
        change, rel=1e-3, abs=1e-8
    )


@pytest.mark.parametrize("response", RESPONSES, ids=str)
def test_the_composition_is_how_rows_change_with_their_ends(response):
    _, shown = scene(5)
    ends = 0.2 + PERIOD_S * np.arange(7)
    moved = ends.copy()
    moved[3] += 1e-7
    change = (shown.rows(moved, response) - shown.rows(ends, response)) / 1e-7
    seen = shown.composition(ends, response)[3]
    assert change[2] == pytest.approx(seen, abs=1e-3 * max(1.0, np.abs(seen).max()))


@pytest.mark.parametrize("response", RESPONSES[:4], ids=str)
def test_rows_inside_one_slice_at_its_borders_and_of_no_length(response):
    spans = spans_of([0.01, 0.2, 0.01, 0.01, 0.3], [1, 2, 1, 3, 2])
    columns = columns_of(c1=1, c2=1, c3=2)
    pieces = cut(spans, columns)
    shown = ShownTime(pieces, columns.width, PERIOD_S)
    border = float(pieces.begin_s[2])
    instants = np.array([0.005, 0.02, 0.05, 0.05, 0.1, border, 0.215, 0.225, 0.3, 0.4, 0.45])
    time = np.diff(shown.elapsed(instants), axis=0)
    for k, (a, b) in enumerate(itertools.pairwise(instants)):
        inside = np.clip(np.minimum(pieces.end_s, b) - np.maximum(pieces.begin_s, a), 0, None)
        expected = np.bincount(pieces.column, inside, columns.width)
        expected += np.bincount(pieces.count, inside * pieces.per_s, columns.width)
        assert time[k] == pytest.approx(expected, abs=1e-12)
    rows = shown.rows(instants, response)
    few = shown.rows(instants[[0, 4, 10]], response)
    assert few == pytest.approx(np.stack([rows[:4].sum(0), rows[4:].sum(0)]), abs=1e-7)


def test_holes_between_batches_are_filled_too():
    before, after = spans_of([1.0, 1.0], [1, 2]), spans_of([1.0], [1])
    moved = Spans(after.begin_s + 3.0, after.end_s + 3.0, after.code)
    joined = moved.reaching_from(before)
    assert joined.begin_s.tolist() == [2.0, 3.0]
    assert joined.end_s.tolist() == [3.0, 4.0]
    assert joined.code.tolist() == [UNATTRIBUTED, 1]
    assert moved.reaching_from(joined) is moved
    assert moved.reaching_from(Spans.empty()) is moved


def test_slices_are_three_to_eight_milliseconds():
    assert slices(0.002, 0.012) == 1
    assert slices(0.105, 0.180) == 16
    assert slices(0.052, 0.180) == 8
    assert slices(30.0, 60.0) == 16


def test_a_thousand_phases_share_what_is_left():
    columns = Columns()
    for code in range(1, 1000):
        columns.add(code, 4)
    assert columns.width <= LARGEST
    assert CROWD in columns.owners
    assert columns.owner_of(1) == 1 and columns.owner_of(999) == CROWD
    assert len(columns.owners) < 60


@pytest.mark.parametrize("tau_s", [4e-4, 0.004, 0.05, 0.3])
def test_a_lag_over_many_short_slices_and_a_long_one(tau_s: float) -> None:
    """Against the sum over all slices before each instant."""
    rng = np.random.default_rng(4)
    durations = rng.uniform(2e-4, 2e-3, 3000)
    durations[1700] = 12.0  # nothing before it is left after it
    spans = spans_of(durations, rng.integers(1, 4, 3000))
    columns = columns_of(c1=1, c2=1, c3=2)
    shown = ShownTime(cut(spans, columns), columns.width, 0.02)
    edges = edges_of(shown)
    ends_s = np.sort(rng.uniform(-0.05, edges[-1] + 0.1, 150))
    watts = rng.uniform(50, 400, len(shown.slices))
    begins, ends = edges[:-1].copy(), edges[1:].copy()
    begins[0], ends[-1] = -100.0, 100.0  # as the first and the last, before and after
    inside = np.minimum(ends, ends_s[:, None]) - np.minimum(begins, ends_s[:, None])
    age = [np.maximum(ends_s[:, None] - at, 0.0) for at in (begins, ends)]
    withheld = tau_s * (np.exp(-age[1] / tau_s) - np.exp(-age[0] / tau_s))
    expected = np.diff(inside - withheld, axis=0)
    response = Response.of(0.0, tau_s)
    rows = shown.rows(ends_s, response)
    energies = shown.energies(shown.powers(watts), ends_s, response)
    np.testing.assert_allclose(energies, expected @ watts, rtol=0, atol=1e-6)
    for column in np.unique(shown.slices.column):
        there = shown.slices.column == column
        np.testing.assert_allclose(rows[:, column], expected[:, there].sum(1), rtol=0, atol=1e-8)


@pytest.mark.parametrize("asked", [0, 1, 7, 500])
@pytest.mark.parametrize("response", RESPONSES[:4], ids=str)
def test_sums_that_are_kept_are_those_that_are_made_when_asked_for(asked, response) -> None:
    rng, shown = scene(11)
    kept = ShownTime(shown.slices, shown.width, PERIOD_S, for_many_responses=True)
    edges = edges_of(shown)
    for _ in range(2):  # of instants before the first slice and after the last, too
        at_s = np.sort(rng.uniform(edges[0] - 0.1, edges[-1] + 0.1, asked))
        assert shown.elapsed(at_s).shape == (asked, shown.width)
        assert shown.elapsed(at_s) == pytest.approx(kept.elapsed(at_s), abs=1e-12)
        rows = shown.rows(at_s, response)
        assert rows.shape == (max(0, asked - 1), shown.width)
        assert rows == pytest.approx(kept.rows(at_s, response), abs=1e-12)
        seen = shown.composition(at_s, response)
        assert seen == pytest.approx(kept.composition(at_s, response), abs=1e-10)
