"""Dating the updates of a counter from the reads around them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probe.attribution.meter.lattice_line import placed
from probe.attribution.meter.update_times import CounterUpdateFinder
from probe.attribution.meter.updates import Updates
from probe.sensors._schedule import IrregularPeriods
from tests.fakes.energy_curves import from_counter
from tests.fakes.power_sensors import FaultyCounter
from tests.fakes.power_traces import STEPS, Counter, make_trace, scheduled_reads


def scene(period_s=0.1, seconds=30.0, seed=0, **counter):
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS["60 ms"], seconds, rng)
    at, value = Counter(period_s, **counter).updates(trace, rng)
    return at, scheduled_reads(at, value, float(trace.edges_s[-1]), rng)


def dated(reads, pieces=1):
    lattice = CounterUpdateFinder()
    edges = np.linspace(0, len(reads.time_s), pieces + 1).astype(int)
    parts = [
        lattice.feed(reads.time_s[a:b], reads.span_s[a:b], reads.joules[a:b])
        for a, b in itertools.pairwise(edges)
    ]
    return Updates.concat([*parts, lattice.finish()])


@pytest.mark.parametrize("period_s", [0.1, 0.02])
def test_updates_are_dated_better_than_their_brackets(period_s):
    at, reads = scene(period_s)
    updates = dated(reads)
    error = np.abs(updates.time_s[:, None] - at[None]).min(1)
    assert len(updates) > 0.9 * 30 / period_s * 0.9
    assert np.sqrt(np.mean(error**2)) < 0.0006
    # What it says of its own error is about right.
    assert 0.4 < np.mean(updates.sigma_s) / np.sqrt(np.mean(error**2)) < 2.5
    assert (updates.slack_s < 0.0065).all()
    assert (np.diff(updates.time_s) > 0).all()


def test_how_reads_are_cut_does_not_matter():
    _, reads = scene()
    whole, cut = dated(reads), dated(reads, 37)
    for name in ("time_s", "joules", "sigma_s", "slack_s", "horizon_s", "fresh"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name))


def test_missed_updates_leave_the_energy_whole():
    _, reads = scene(missed=0.2)
    updates = dated(reads)
    assert updates.joules[-1] == pytest.approx(reads.joules[-1] - reads.joules[0], rel=0.02)
    assert not updates.fresh[1:].any()


@pytest.mark.parametrize(
    "fault", [{"late": 0.1}, {"doubled": 0.1}, {"late": 0.1, "doubled": 0.1}], ids=str
)
@pytest.mark.parametrize("seed", range(4))
def test_updates_that_come_late_or_in_two_parts_put_no_energy_where_it_is_not(fault, seed):
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS["60 ms"], 60.0, rng)
    counter = FaultyCounter(0.08, **fault)
    reads = scheduled_reads(*counter.updates(trace, rng), float(trace.edges_s[-1]), rng)
    updates = dated(reads)
    true = np.diff(counter.seen_energy(trace, updates.time_s))
    off = np.abs(np.diff(updates.joules) - true)[~updates.fresh[1:]] / np.median(true)
    assert len(updates) > 0.6 * 60 / 0.08
    assert np.mean(off > 0.15) < 0.03


@pytest.mark.parametrize("last_s", [-5.0, 0.0, 1e6])
def test_times_that_lie_on_no_lattice_have_places(last_s):
    middle = np.array([0.0, 0.1, 0.2, 0.3, last_s])
    index, times, _ = placed(np.arange(5), middle, np.full(5, 0.001), np.array([], int))
    assert (np.diff(index) > 0).all() and set(times) <= set(middle)


@pytest.mark.parametrize(
    ("period_s", "undated"), [(0.001, False), (0.008, False), (0.025, True), (0.1, False)]
)
def test_a_counter_about_as_fast_as_its_reads_is_not_dated(period_s, undated):
    """Neither the reads nor a lattice tell when it moved."""
    periods = IrregularPeriods()
    time_s = np.cumsum([0.02 * periods.next_share() for _ in range(2000)])
    finder = CounterUpdateFinder()
    steps = np.floor(time_s / period_s) * period_s * 250.0
    updates = finder.feed(time_s, np.full(len(time_s), 1e-4), steps)
    assert finder.undated is undated
    assert np.mean(updates.fresh[50:]) == (1.0 if undated else 0.0)


def test_a_reset_is_not_energy():
    _, reads = scene(reset_s=15.0)
    updates = dated(reads)
    assert updates.fresh[1:].sum() == 1
    assert (np.diff(updates.joules) >= 0).all()


def test_a_counter_that_wraps_goes_on():
    time = np.arange(0, 10, 0.005)
    joules = np.floor(60 * time * 1e3) / 1e3 % 262.144
    lattice = CounterUpdateFinder(wrap_j=262.144, resolution_s=0.001)
    updates = Updates.concat(
        [lattice.feed(time, np.full(len(time), 1e-5), joules), lattice.finish()]
    )
    assert updates.joules[-1] == pytest.approx(600, rel=0.01)
    assert (updates.slack_s <= 0.00051).all()


def test_what_happens_in_a_restart_is_left_out():
    lattice = CounterUpdateFinder()
    time = np.arange(0, 4, 0.01)
    joules = np.floor(time / 0.1) * 25.0
    parts = [lattice.feed(time[:200], np.zeros(200), joules[:200])]
    lattice.interrupt()
    parts += [lattice.feed(time[200:], np.zeros(200), joules[200:] + 7e6), lattice.finish()]
    updates = Updates.concat(parts)
    assert updates.joules[-1] < 1000
    assert updates.fresh.sum() == 2  # the first one, and the first after the restart


def test_short_and_empty_series():
    lattice = CounterUpdateFinder()
    assert not len(lattice.finish())
    time = np.array([0.0, 0.1, 0.2, 0.21])
    updates = Updates.concat(
        [lattice.feed(time, np.zeros(4), np.array([1.0, 1.0, 1.0, 2.0])), lattice.finish()]
    )
    assert updates.time_s.tolist() == pytest.approx([0.205])


def coasting(seconds=60.0, begin_s=0.0, seed=3, swing_s=0.0002):
    """Every fourth update caught within 4 ms, the others read amid two; and the truth."""
    rng = np.random.default_rng(seed)
    even = np.arange(0.033, seconds, 0.1003)
    at = even + rng.normal(0, swing_s, len(even))
    times, joules = [], []
    for k in range(len(at) - 1):
        if k % 4 == 0 or k < 60:
            phase = rng.uniform(0, 0.004)
            times += [at[k] - phase, at[k] - phase + 0.004]
            joules += [k * 7.0, (k + 1) * 7.0]
        else:
            times.append(round((at[k] + 0.05) / 0.05) * 0.05)
            joules.append((k + 1) * 7.0)
    times, joules = np.array(times), np.array(joules)
    keep = times >= begin_s
    return at[at > begin_s], times[keep], joules[keep]


@pytest.mark.parametrize("begin_s", [0.0, 30.02])
def test_updates_between_reads_are_dated_by_the_lattice(begin_s):
    """Also where the reading begins in the midst of it."""
    at, times, joules = coasting(begin_s=begin_s)
    lattice = CounterUpdateFinder()
    updates = Updates.concat(
        [lattice.feed(times, np.full(len(times), 2e-5), joules), lattice.finish()]
    )
    assert len(updates) >= len(at) - 4
    error = np.abs(updates.time_s[:, None] - at[None]).min(1)
    assert np.sqrt(np.mean(error**2)) < 0.0006 and error.max() < 0.0025
    assert 0.4 < np.mean(updates.sigma_s) / np.sqrt(np.mean(error**2)) < 2.5
    assert (updates.slack_s < 0.0026).all()
    assert np.diff(updates.joules) == pytest.approx(7.0)


def test_a_lattice_that_swings_dates_only_what_was_caught():
    _, times, joules = coasting(swing_s=0.006)
    lattice = CounterUpdateFinder()
    updates = Updates.concat(
        [lattice.feed(times, np.full(len(times), 2e-5), joules), lattice.finish()]
    )
    assert len(updates) < 300
    assert updates.joules[-1] == pytest.approx(joules[-1] - joules[1], abs=30)


def test_the_curve_sets_updates_that_were_not_caught_evenly_between():
    at, times, joules = coasting()
    updates = from_counter((times * 1e9).astype(np.int64), joules, np.zeros(len(times), np.int64))
    assert updates is not None
    error = np.abs(updates.time_ns[:, None] / 1e9 - at[None]).min(1)
    assert error.max() < 0.0035
    assert updates.slack_ns < 2.6e6
    assert updates.period_s == pytest.approx(0.1003, rel=0.01)
