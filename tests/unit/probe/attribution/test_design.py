"""Rows of the regression against brute force, and columns that never run out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.attribution.regression.columns import CROWD, LARGEST, UNATTRIBUTED, Columns, slices
from probe.attribution.regression.design import RowBuilder, Spans, cut


def spans_of(durations, codes):
    edges = np.concatenate([[0.0], np.cumsum(durations)])
    return Spans(edges[:-1], edges[1:], np.array(codes))


def columns_of(**wanted):
    columns = Columns()
    for code, number in wanted.items():
        columns.add(int(code[1:]), number)
    return columns


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


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), tau=st.sampled_from([0.0, 0.004, 0.02]))
def test_rows_are_the_integrals_that_they_stand_for(seed, tau):
    rng = np.random.default_rng(seed)
    codes = rng.integers(1, 4, 60)
    spans = spans_of(rng.uniform(0.001, 0.03, 60), codes)
    columns = columns_of(c1=2, c2=1, c3=4)
    pieces = cut(spans, columns)
    instants = np.sort(rng.uniform(0.01, spans.end_s[-1], 9))
    builder = RowBuilder(tau, 0.0)
    rows, time = builder.rows(instants, pieces, columns.width)
    # Brute force: power 1 in one column, filtered in steps of 2 µs.
    grid = np.arange(instants[0], instants[-1], 2e-6)
    for column in rng.choice(columns.width, 2, replace=False):
        at = np.clip(np.searchsorted(pieces.begin_s, grid, "right") - 1, 0, None)
        rate = np.where(pieces.column[at] == column, 1.0, 0.0)
        rate += np.where(pieces.count[at] == column, pieces.per_s[at], 0.0)
        level = rate.copy()
        if tau:
            from scipy.signal import lfilter

            keep = np.exp(-2e-6 / tau)
            level = lfilter([1 - keep], [1, -keep], rate, zi=[keep * rate[0]])[0]
        for k, (a, b) in enumerate(itertools.pairwise(instants)):
            inside = (grid >= a) & (grid < b)
            scale = max(rate.max(), 1.0)
            assert rows[k, column] == pytest.approx(level[inside].sum() * 2e-6, abs=scale * 2e-5)
            assert time[k, column] == pytest.approx(rate[inside].sum() * 2e-6, abs=scale * 2e-5)


@pytest.mark.parametrize("tau", [0.0, 0.008])
def test_rows_inside_one_slice_at_its_borders_and_of_no_length(tau):
    spans = spans_of([0.01, 0.2, 0.01, 0.01, 0.3], [1, 2, 1, 3, 2])
    columns = columns_of(c1=1, c2=1, c3=2)
    pieces = cut(spans, columns)
    border = float(pieces.begin_s[2])
    instants = np.array([0.005, 0.02, 0.05, 0.05, 0.1, border, 0.215, 0.225, 0.3, 0.4, 0.45])
    rows, time = RowBuilder(tau, 0.0).rows(instants, pieces, columns.width)
    for k, (a, b) in enumerate(itertools.pairwise(instants)):
        inside = np.clip(np.minimum(pieces.end_s, b) - np.maximum(pieces.begin_s, a), 0, None)
        expected = np.bincount(pieces.column, inside, columns.width)
        expected += np.bincount(pieces.count, inside * pieces.per_s, columns.width)
        assert time[k] == pytest.approx(expected, abs=1e-12)
    few, _ = RowBuilder(tau, 0.0).rows(instants[[0, 4, 10]], pieces, columns.width)
    assert few == pytest.approx(np.stack([rows[:4].sum(0), rows[4:].sum(0)]), abs=1e-12)
    one, _ = RowBuilder(tau, 0.0).rows(np.array([0.05, 0.1]), pieces, columns.width)
    assert one[0, columns.first[2]] == pytest.approx(0.05)  # all of it in a phase that goes on


def test_holes_between_batches_are_filled_too():
    before, after = spans_of([1.0, 1.0], [1, 2]), spans_of([1.0], [1])
    moved = Spans(after.begin_s + 3.0, after.end_s + 3.0, after.code)
    joined = moved.reaching_from(before)
    assert joined.begin_s.tolist() == [2.0, 3.0]
    assert joined.end_s.tolist() == [3.0, 4.0]
    assert joined.code.tolist() == [UNATTRIBUTED, 1]
    assert moved.reaching_from(joined) is moved
    assert moved.reaching_from(Spans.empty()) is moved


def test_rows_do_not_depend_on_how_instants_are_cut():
    rng = np.random.default_rng(1)
    spans = spans_of(rng.uniform(0.001, 0.03, 400), rng.integers(1, 4, 400))
    columns = columns_of(c1=2, c2=1, c3=4)
    pieces = cut(spans, columns)
    instants = np.sort(rng.uniform(0.01, spans.end_s[-1], 90))
    whole, _ = RowBuilder(0.008, 0.001).rows(instants, pieces, columns.width)
    builder = RowBuilder(0.008, 0.001)
    parts = [builder.rows(part, pieces, columns.width)[0] for part in np.array_split(instants, 13)]
    assert np.allclose(whole, np.concatenate(parts), rtol=0, atol=1e-12)


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
