"""Which meter speaks for a device: how much energy it used, and how phases share it.

The total is the counter's, unless the sensor found that it disagrees with sampled power; then,
or without a counter, it is sampled power's: the driver's own samples before polled ones. Phases
are told apart by the counter, if it is not too coarse.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..attribution.meter.energy_curve import EnergyCurve
from ..attribution.regression.statistics import Statistics
from ..model import DISTRUSTED, TRUSTED_AGAIN, Gap, Source
from ..units import NS_PER_S

# Quantities in W, of any vendor, best first: each value the mean since the one before, the power
# at an instant, the mean of a trailing window.
POWERS = ("power_samples", "power", "power_average")
_ENOUGH = 10  # samples; with fewer, nothing is known of a run
_COARSE_S = 0.25  # some cards refresh their counter every 500 ms only
_AGREE = 0.03
_COVERED = 0.9


def elect(meters: Sequence[tuple[Source, int]], gaps: Iterable[Gap]) -> list[Source]:
    """The sources with ``in_total`` set where it belongs: once per device.

    Args:
        meters: with how many samples each has.
    """
    distrusted: set[str] = set()
    for gap in gaps:
        follow_trust(gap, distrusted)
    counted = stand_ins(meters, distrusted)
    return [replace(source, in_total=speaks(source, counted)) for source, _ in meters]


def follow_trust(gap: Gap, distrusted: set[str]) -> None:
    """Keep the ids of distrusted counters up to date; gaps of a meter come in order of time."""
    if gap.reason.startswith(DISTRUSTED):
        distrusted.add(gap.what)
    elif gap.reason.startswith(TRUSTED_AGAIN):
        distrusted.discard(gap.what)


def stand_ins(meters: Sequence[tuple[Source, int]], distrusted: Container[str]) -> dict[str, str]:
    """Ids of the meters that lose their place in the total, each to the id of another.

    Args:
        meters: with how many samples each has.
        distrusted: ids of counters that disagree with sampled power.
    """
    counted: dict[str, str] = {}
    for source, _ in meters:
        polled = source.quantity == "power" and source.in_total
        if source.in_total and (source.id in distrusted or polled):
            better = _stand_in(meters, source)
            if better is not None and better != source.id:
                counted[source.id] = better
    return counted


def speaks(source: Source, counted: dict[str, str]) -> bool:
    """True if this meter counts into the total."""
    return source.id in counted.values() or (source.in_total and source.id not in counted)


def _stand_in(meters: Sequence[tuple[Source, int]], other: Source) -> str | None:
    same = {
        source.quantity: source.id
        for source, samples in meters
        if source.uuid == other.uuid
        and source.device == other.device
        and source.attributable
        and samples >= _ENOUGH
    }
    return next((same[name] for name in POWERS if name in same), None)


def finer(
    curve: EnergyCurve, origin_ns: int, own: Statistics | None, samples: Statistics | None
) -> Statistics | None:
    """The counter's statistics; of a coarse one, those of the driver's power samples, scaled to it.

    The samples are finer than any counter, but how they lag behind is not known, and the
    error of a guess is larger than what their resolution gains over a counter of 100 ms.

    Args:
        curve: the counter's energy.
        origin_ns: time 0 of the statistics.
    """
    if samples is None or (own is not None and curve.period_s <= _COARSE_S):
        return own
    joules, seconds = (float(part.sum()) for part in samples.direct())
    joules, seconds = joules + samples.mixed_j, seconds + samples.seen_s
    begin, end = (origin_ns + round(at * NS_PER_S) for at in (samples.begin_s, samples.end_s))
    ends_j = curve.at(np.array([begin, end]))
    length_s = (end - begin) / NS_PER_S
    if joules <= 0 or seconds < _COVERED * length_s:
        return own
    gain = float(ends_j[1] - ends_j[0]) / length_s / (joules / seconds)
    return samples.scaled(gain) if abs(gain - 1) <= _AGREE else own
