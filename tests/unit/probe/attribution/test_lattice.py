"""Dating the updates of a counter from the reads around them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probe.attribution.lattice import Lattice, Updates
from tests.rigs.workloads import STEPS, Counter, make_trace, scheduled_reads


def scene(period_s=0.1, seconds=30.0, seed=0, **counter):
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS["60 ms"], seconds, rng)
    at, value = Counter(period_s, **counter).updates(trace, rng)
    return at, scheduled_reads(at, value, float(trace.edges_s[-1]), rng)


def dated(reads, pieces=1):
    lattice = Lattice()
    edges = np.linspace(0, len(reads.time_s), pieces + 1).astype(int)
    parts = [
        lattice.feed(reads.time_s[a:b], reads.span_s[a:b], reads.joules[a:b])
        for a, b in itertools.pairwise(edges)
    ]
    return Updates.concat([*parts, lattice.finish()])


@pytest.mark.parametrize("period_s", [0.1, 0.02])
def test_updates_are_dated_better_than_their_brackets(period_s):
    at, reads = scene(period_s)
    found = dated(reads)
    error = np.abs(found.time_s[:, None] - at[None]).min(1)
    assert len(found) > 0.9 * 30 / period_s * 0.9
    assert np.sqrt(np.mean(error**2)) < 0.0006
    # What it says of its own error is about right.
    assert 0.4 < np.mean(found.sigma_s) / np.sqrt(np.mean(error**2)) < 2.5
    assert (found.slack_s < 0.0065).all()
    assert (np.diff(found.time_s) > 0).all()


def test_how_reads_are_cut_does_not_matter():
    _, reads = scene()
    whole, cut = dated(reads), dated(reads, 37)
    for name in ("time_s", "joules", "sigma_s", "slack_s", "horizon_s", "fresh"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name))


def test_missed_updates_leave_the_energy_whole():
    _, reads = scene(missed=0.2)
    found = dated(reads)
    assert found.joules[-1] == pytest.approx(reads.joules[-1] - reads.joules[0], rel=0.02)
    assert not found.fresh[1:].any()


def test_a_reset_is_not_energy():
    _, reads = scene(reset_s=15.0)
    found = dated(reads)
    assert found.fresh[1:].sum() == 1
    assert (np.diff(found.joules) >= 0).all()


def test_a_counter_that_wraps_goes_on():
    time = np.arange(0, 10, 0.005)
    joules = np.floor(60 * time * 1e3) / 1e3 % 262.144
    lattice = Lattice(wrap_j=262.144, resolution_s=0.001)
    found = Updates.concat([lattice.feed(time, np.full(len(time), 1e-5), joules),
                            lattice.finish()])
    assert found.joules[-1] == pytest.approx(600, rel=0.01)
    assert (found.slack_s <= 0.00051).all()


def test_what_happens_in_a_restart_is_left_out():
    lattice = Lattice()
    time = np.arange(0, 4, 0.01)
    joules = np.floor(time / 0.1) * 25.0
    parts = [lattice.feed(time[:200], np.zeros(200), joules[:200])]
    lattice.interrupt()
    parts += [lattice.feed(time[200:], np.zeros(200), joules[200:] + 7e6), lattice.finish()]
    found = Updates.concat(parts)
    assert found.joules[-1] < 1000
    assert found.fresh.sum() == 2  # the first one, and the first after the restart


def test_short_and_empty_series():
    lattice = Lattice()
    assert not len(lattice.finish())
    time = np.array([0.0, 0.1, 0.2, 0.21])
    found = Updates.concat([lattice.feed(time, np.zeros(4), np.array([1.0, 1.0, 1.0, 2.0])),
                            lattice.finish()])
    assert found.time_s.tolist() == pytest.approx([0.205])
