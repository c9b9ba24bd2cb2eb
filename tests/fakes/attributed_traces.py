"""The estimator on simulated runs of known power."""

from __future__ import annotations

import numpy as np

from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import Estimate, estimate
from probe.attribution.meter.updates import UpdateFinder
from probe.attribution.spans import Spans
from tests.fakes.power_sensors import Counter, Floats, scheduled_reads
from tests.fakes.power_traces import Trace


def attributed(
    trace: Trace, counter: Counter, rng: np.random.Generator, finder: UpdateFinder | None = None
) -> tuple[Estimate, Floats]:
    """What the estimator makes of a trace that a counter shows.

    Args:
        finder: dates the counter's updates; None: as the product does.

    Returns:
        (the estimate, true joules by phase).
    """
    reads = scheduled_reads(*counter.updates(trace, rng), float(trace.edges_s[-1]), rng)
    accumulator = Accumulator(finder=finder)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    statistics = accumulator.finish()
    inside = np.diff(np.clip(trace.span_s, statistics.begin_s, statistics.end_s))
    seconds = dict(enumerate(np.bincount(trace.code, inside, len(trace.names)).tolist()))
    truth = trace.truth(statistics.begin_s, statistics.end_s)
    estimated = estimate(statistics, float(truth.sum()), seconds)
    assert estimated is not None
    return estimated, truth
