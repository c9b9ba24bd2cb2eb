"""A phase of few long visits is measured between its borders."""

from __future__ import annotations

import numpy as np
import pytest

from probe.analysis.phase_rows import _with_visits
from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import PhaseEstimate, estimate
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.attribution.spans import Spans
from probe.attribution.time_split import split
from probe.model import Status
from tests.fakes.power_sensors import Counter, scheduled_reads
from tests.fakes.power_traces import STEPS, World, make_trace

RUN_NS = (0, 60_000_000_000)


@pytest.fixture(scope="module")
def checkpoints():
    """(estimate, shares by time, truth, visits) of a run that waits 2.5 s now and then."""
    rng = np.random.default_rng(4)
    trace = make_trace(STEPS["60 ms, checkpoints"], 60.0, rng, World(idle_decay=0.2))
    at, value = Counter(delay_s=0.02).updates(trace, rng)
    reads = scheduled_reads(at, value, float(trace.edges_s[-1]), rng)
    accumulator = Accumulator()
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    statistics = accumulator.finish()
    seconds = dict(enumerate(np.bincount(trace.code, np.diff(trace.span_s)).tolist()))
    estimated = estimate(statistics, None, seconds)
    curve = EnergyCurve((at * 1e9).astype(np.int64), value, 1e6, 0.1)
    edges = (trace.span_s * 1e9).astype(np.int64)
    shares = split(curve, edges[:-1], edges[1:], trace.code, RUN_NS, np.array([700.0]))
    truth = trace.truth(0.0, float(trace.edges_s[-1]))
    return estimated, shares.bounded(700.0), truth, np.bincount(trace.code)


def test_few_long_visits_are_known_to_a_period_at_each_end(checkpoints):
    estimated, by_time, truth, visits = checkpoints
    codes = [code for code in by_time if code >= 0]
    phase = max(codes, key=lambda code: by_time[code].time_ns / visits[code])
    assert 1 <= visits[phase] < 20
    refused = PhaseEstimate(truth[phase], 0.0, 0.0, Status.NOT_IDENTIFIABLE, "interval")
    measured = _with_visits(estimated, refused, by_time[phase], int(visits[phase]))
    assert measured.status is Status.RESOLVED
    assert measured.low_j <= truth[phase] <= measured.high_j
    ends = 2 * visits[phase] * 0.1 * by_time[phase].energy_j / (by_time[phase].time_ns / 1e9)
    assert (measured.high_j - measured.low_j) / 2 == pytest.approx(ends, rel=1.0)
    narrow = PhaseEstimate(truth[phase], truth[phase] - 1, truth[phase] + 1, Status.RESOLVED)
    assert (
        _with_visits(estimated, narrow, by_time[phase], int(visits[phase])).low_j < truth[phase] - 1
    )


def test_short_visits_are_left_to_the_regression(checkpoints):
    estimated, by_time, truth, visits = checkpoints
    refused = PhaseEstimate(truth[1], 0.0, 0.0, Status.NOT_IDENTIFIABLE, "interval")
    assert _with_visits(estimated, refused, by_time[1], int(visits[1])) is refused
    elsewhere = PhaseEstimate(3 * truth[1], 0.0, 0.0, Status.NOT_IDENTIFIABLE, "interval")
    assert _with_visits(estimated, elsewhere, by_time[1], 2) is elsewhere  # the two disagree
