"""Energy curves of reads that are all there at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from probe.attribution.arrays import Floats, Times
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.attribution.meter.energy_knots import CounterKnots, PowerKnots


def from_counter(
    time_ns: Times,
    joules: Floats,
    span_ns: Times,
    wrap_j: float | None = None,
    *,
    restarts_ns: Iterable[int] = (),
    resolution_s: float | None = None,
) -> EnergyCurve | None:
    """Curve of a counter at once, see :class:`CounterKnots`."""
    knots = CounterKnots(wrap_j, resolution_s)
    for at_ns in restarts_ns:
        knots.restart(at_ns)
    knots.feed(time_ns, joules, span_ns)
    return knots.curve()


def from_power(time_ns: Times, watts: Floats, *, means: bool = False) -> EnergyCurve | None:
    """Curve of sampled power at once, see :class:`PowerKnots`."""
    knots = PowerKnots(means=means)
    knots.feed(time_ns, watts, np.zeros(len(time_ns), np.int64))
    return knots.curve()
