"""The estimator against workloads of known power, small and seeded."""

from __future__ import annotations

import os
import time

import numpy as np
import psutil
import pytest

from probe.attribution.accumulator import Accumulator
from probe.attribution.bounds import bounds
from probe.attribution.estimate import estimate
from probe.attribution.regression.blocks import MOST, Blocks, Innovations
from probe.attribution.response.response import Response
from probe.attribution.spans import Spans
from probe.model import Status
from tests.fakes.power_traces import STEPS, Counter, World, make_trace, scheduled_reads

KNOWN = Response.of(0.0, 0.008)


def scene(name="60 ms", seed=0, seconds=60.0, world=None, **counter):
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS[name], seconds, rng, world)
    at, value = Counter(**counter).updates(trace, rng)
    return trace, scheduled_reads(at, value, float(trace.edges_s[-1]), rng)


def statistics(trace, reads, lag=KNOWN, pieces=1):
    accumulator = Accumulator(lag)
    end = float(trace.span_s[-1])
    read = span = 0
    for until in np.linspace(0, end, pieces + 1)[1:]:
        to = int(np.searchsorted(trace.span_s[1:], until, "right"))
        accumulator.feed_spans(
            Spans(trace.span_s[span:to], trace.span_s[span + 1 : to + 1], trace.code[span:to])
        )
        span = to
        to = int(np.searchsorted(reads.time_s, until, "right"))
        accumulator.feed_reads(reads.time_s[read:to], reads.span_s[read:to], reads.joules[read:to])
        read = to
        accumulator.advance()
    return accumulator.finish()


def solved(trace, learned):
    """(estimate, true J per phase) over the time between the first and the last update."""
    inside = np.diff(np.clip(trace.span_s, learned.begin_s, learned.end_s))
    seconds = {j: float(inside[trace.code == j].sum()) for j in range(len(trace.names))}
    total = learned.mixed_j + float(learned.direct()[0].sum())
    return estimate(learned, total, seconds), trace.truth(learned.begin_s, learned.end_s), total


def test_energies_close_and_intervals_hold_the_truth():
    held, wide = [], []
    for seed in range(6):
        trace, reads = scene(seed=seed)
        solution, truth, total = solved(trace, statistics(trace, reads))
        assert float(solution.energy_j.sum()) == pytest.approx(total, rel=1e-12)
        energy = np.array([solution.of(j).energy_j for j in range(len(truth))])
        assert 0.5 * np.abs(energy - truth).sum() / truth.sum() < 0.025
        held += [solution.of(j).low_j <= t <= solution.of(j).high_j for j, t in enumerate(truth)]
        wide += [(solution.of(j).high_j - solution.of(j).low_j) / 2 / truth[j] for j in (1, 2)]
        assert solution.of(1).status is solution.of(2).status is Status.RESOLVED
    assert np.mean(held) >= 0.9
    assert np.median(wide) < 0.05


@pytest.mark.parametrize("lag", [KNOWN, None], ids=["known lag", "blind"])
def test_how_the_run_is_cut_does_not_matter(lag):
    trace, reads = scene()
    whole, cut = statistics(trace, reads, lag), statistics(trace, reads, lag, 203)
    assert whole.columns == cut.columns
    assert whole.mixed_j == pytest.approx(cut.mixed_j, rel=1e-12)
    assert np.allclose(whole.mixed_s, cut.mixed_s, rtol=1e-9)
    assert {k: v.tolist() for k, v in whole.occupancy.items()} == {
        k: v.tolist() for k, v in cut.occupancy.items()
    }
    assert whole.moments.keys() == cut.moments.keys()
    assert whole.before == cut.before
    for lane, other in zip(whole.lanes, cut.lanes, strict=True):
        assert (lane.gain, lane.tie) == (other.gain, other.tie)
        assert lane.response.mean_s == pytest.approx(other.response.mean_s, rel=1e-6)
        assert np.array_equal(lane.blocks.rows, other.blocks.rows)
        assert np.allclose(lane.blocks.sums, other.blocks.sums, rtol=1e-6, atol=1e-6)


def test_an_unknown_lag_is_found():
    trace, reads = scene(seed=3)
    learned = statistics(trace, reads, None)
    best, truth, _ = solved(trace, learned)
    assert 0.004 < learned.lanes[0].response.tau_s < 0.012
    energy = np.array([best.of(j).energy_j for j in range(len(truth))])
    assert 0.5 * np.abs(energy - truth).sum() / truth.sum() < 0.03
    assert len(learned.lanes) <= 6


@pytest.mark.parametrize("lag", [KNOWN, None])
@pytest.mark.parametrize("seconds", [0.02, 0.9, 20.0])
def test_a_killed_training_ends_before_its_meter(lag, seconds):
    """The counter is read on for a while; that time is nobody's, whatever is known of the lag."""
    trace, reads = scene(seconds=30.0)
    accumulator = Accumulator(lag)
    last = int(np.searchsorted(trace.span_s, seconds))
    accumulator.feed_spans(
        Spans(trace.span_s[:last], trace.span_s[1 : last + 1], trace.code[:last])
    )
    read = int(np.searchsorted(reads.time_s, seconds + 1.3))
    accumulator.feed_reads(reads.time_s[:read], reads.span_s[:read], reads.joules[:read])
    learned = accumulator.finish(seconds + 1.2)
    assert learned.lanes and learned.end_s > seconds + 0.9


def test_a_locked_step_is_refused_and_bounded():
    trace, reads = scene("50 ms, periodic", seed=1, skew=0.0, jitter_s=0.0)
    solution, truth, _ = solved(trace, statistics(trace, reads))
    for j, true in enumerate(truth):
        phase = solution.of(j)
        assert phase.status is Status.NOT_IDENTIFIABLE and phase.why == "locked"
        least, most = bounds(solution, j, 700.0)
        assert least <= true <= most
    together = solution.of(*range(len(truth)))
    assert together.energy_j == pytest.approx(truth.sum(), rel=1e-3)


def test_dither_breaks_the_lock():
    world = World(dither=(10, 0.02, 110.0))
    trace, reads = scene("50 ms, periodic", seed=1, world=world, skew=0.0, jitter_s=0.0)
    solution, _, _ = solved(trace, statistics(trace, reads))
    assert solution.of(2).status is Status.RESOLVED


def test_waits_of_constant_energy_do_not_fool_it():
    held = []
    for seed in range(4):
        trace, reads = scene("180 ms", seed=seed, world=World(constant_energy=True))
        solution, truth, _ = solved(trace, statistics(trace, reads))
        held += [solution.of(j).low_j <= t <= solution.of(j).high_j for j, t in enumerate(truth)]
    assert np.mean(held) >= 0.85


def test_a_phase_of_seconds_is_metered_directly():
    """5 s of start-up at a power that drifts: its energy is known, the steps are not disturbed."""
    trace, reads = scene(seed=2)
    calm = trace.span_s[-1]
    spans = Spans(trace.span_s[:-1], trace.span_s[1:], trace.code)
    late = Spans(np.array([calm]), np.array([calm + 8.0]), np.array([99]))
    time = np.arange(calm + 0.1, calm + 8.0, 0.01)
    joules = reads.joules[-1] + np.floor((time - calm) / 0.1) * 30.0
    accumulator = Accumulator(KNOWN)
    accumulator.feed_spans(spans)
    accumulator.feed_spans(late)
    accumulator.feed_reads(
        np.concatenate([reads.time_s, time]),
        np.concatenate([reads.span_s, np.full(len(time), 1e-4)]),
        np.concatenate([reads.joules, joules]),
    )
    learned = accumulator.finish()
    joules, seconds = (line[learned.columns.owners.index(99)] for line in learned.direct())
    assert seconds == pytest.approx(7.6, abs=0.4)
    assert joules == pytest.approx(300 * seconds, rel=0.02)


PROVE = bool(os.environ.get("PROVE"))


@pytest.mark.timeout(3000)
def test_a_million_updates_cost_neither_memory_nor_time():
    """A counter of 20 ms for hours, in portions of a second: state and cost stay as they were."""
    updates = 1_000_000 if PROVE else 60_000
    process = psutil.Process()
    accumulator = Accumulator(KNOWN)
    rng = np.random.default_rng(0)
    step = np.array([0.006, 0.017, 0.031, 0.0035])
    watts = np.array([120.0, 430.0, 500.0, 330.0])
    clock, energy, used, seen, sizes, last = 0.0, 0.0, 0.0, 0, [], 0.0
    while seen < updates:
        duration = (step * rng.lognormal(0, 0.1, (18, 4))).ravel()
        edges = clock + np.concatenate([[0.0], np.cumsum(duration)])
        joules = energy + np.concatenate([[0.0], np.cumsum(duration * np.tile(watts, 18))])
        at = np.arange(np.ceil(edges[0] / 0.02), np.ceil(edges[-1] / 0.02)) * 0.02
        value = np.interp(at, edges, joules)
        reads = np.stack([at - 0.001, at + 0.001], 1).ravel()
        seen += len(at)
        before = np.concatenate([[last], value[:-1]])
        last = float(value[-1])
        began = time.process_time()
        accumulator.feed_spans(Spans(edges[:-1], edges[1:], np.tile(np.arange(4), 18)))
        accumulator.feed_reads(
            reads, np.full(len(reads), 1e-4), np.stack([before, value], 1).ravel()
        )
        accumulator.advance()
        used += time.process_time() - began
        clock, energy = float(edges[-1]), float(joules[-1])
        sizes.append(process.memory_info().rss)
    assert 1e3 * used / seen < 1.0  # ms of CPU per update
    assert sizes[-1] - sizes[len(sizes) // 5] < 5e6
    blocks = [lane.blocks for lane in accumulator.statistics.lanes]
    assert len(blocks) <= 6 and sum(b.sums.nbytes for b in blocks) <= 16e6
    assert seen - accumulator.statistics.mixed_rows < 400
    print(
        f"{seen} updates, {1e3 * used / seen:.3f} ms each, "
        f"{(sizes[-1] - sizes[len(sizes) // 5]) / 1e6:.1f} MB grown"
    )


def test_memory_is_constant_and_blocks_merge():
    blocks = Blocks(3)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((10_000, 4))
    for part in np.array_split(rows, 77):
        blocks.add(part, np.arange(len(part), dtype=float))
    sums, number, _ = blocks.full()
    assert MOST // 2 <= len(number) <= MOST
    assert number.sum() == 10_000
    assert np.allclose(sums.sum(0), rows.T @ rows)


@pytest.mark.parametrize("rows", [0, 3, 4, 255, 256, 1000])
def test_blocks_go_on_where_they_were(rows):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows + 500, 4))
    times = np.arange(len(table), dtype=float)
    whole = Blocks(3)
    whole.add(table[:rows], times[:rows])
    again = Blocks.restore(*whole.full())
    for each in (whole, again):
        each.add(table[rows:], times[rows:])
    assert np.array_equal(whole.full()[1], again.full()[1])
    assert np.allclose(whole.full()[0], again.full()[0])


def test_the_drift_filter_is_a_filter():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 3))
    out = Innovations(np.array([0.0, 0.25]), 2).filter(rows)
    assert np.allclose(out[0], rows[1:])
    state = np.zeros(3)
    for k, row in enumerate(rows):
        innovation = row - state
        state = 0.98 * (state + 0.25 * innovation)
        if k:
            assert np.allclose(out[1, k - 1], innovation)
