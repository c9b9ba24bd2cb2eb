"""Readings of one meter as power in bins: the mean, the least and the most of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from probe.analysis.from_samples import summary
from probe.model import Gap, Source
from probe.store.history import Raw, Rolled
from probe.store.reader import Series

from ..chart_data import Floats

_SILENT = 3.0  # times the usual distance of readings: a longer one is a gap
# A counter's energy between two readings is exact, however far apart they are, and one that moves
# evenly is read at one update in nine. So only a much longer distance is a gap.
_COUNTER_SILENT = 25.0  # times the usual distance
Read = Raw | Rolled


def finest_s(source: Source, read: Read | None) -> float:
    """The shortest time over which a meter resolves power.

    Twice the period of a counter, whose updates may be early or late by much of it.
    """
    if isinstance(read, Rolled):
        return read.width_ns / 1e9
    period_s = source.resolution_s or 0.02
    if read is not None and len(read.time_ns) > 2:
        period_s = max(period_s, float(np.median(np.diff(read.time_ns))) / 1e9)
    return 2 * period_s if source.is_energy_counter else period_s


def binned(
    source: Source,
    read: Read | None,
    seen: tuple[Read, float] | None,
    edges: Floats,
    gaps: Sequence[Gap],
) -> tuple[Floats, Floats, Floats]:
    """(mean, least, most) in W per bin."""
    empty = np.full(len(edges) - 1, np.nan)
    if read is None:
        return empty, empty, empty
    is_sparse = source.is_energy_counter and isinstance(read, Raw)
    at, joules = knots(source, read, gaps)
    mean = _means(at, joules, edges, _COUNTER_SILENT if is_sparse else _SILENT)
    unread = np.diff(np.searchsorted(at, edges)) == 0
    mean[unread & _within(gaps, source, edges)] = np.nan
    if seen is None:
        return mean, empty, empty
    extremes, scale = seen
    low, high = _extremes(extremes, edges)
    covered = np.isfinite(mean)
    return (
        mean,
        np.where(covered, np.fmin(low * scale, mean), np.nan),
        np.where(covered, np.fmax(high * scale, mean), np.nan),
    )


def _within(gaps: Sequence[Gap], source: Source, edges: Floats) -> npt.NDArray[np.bool_]:
    """Bins that lie wholly in a recorded gap of the meter, or of the recorder."""
    within = np.zeros(len(edges) - 1, np.bool_)
    for gap in gaps:
        if gap.what in (source.id, "recorder"):
            within |= (edges[:-1] >= gap.begin_ns) & (edges[1:] <= gap.end_ns)
    return within


def _means(at: Floats, joules: Floats, edges: Floats, silent: float) -> Floats:
    """Mean power in W per bin; NaN within a distance of readings beyond ``silent`` usual ones."""
    if len(at) < 2:
        return np.full(len(edges) - 1, np.nan)
    watts = np.diff(np.interp(edges, at, joules)) / (np.diff(edges) / 1e9)
    before = np.searchsorted(at, edges[:-1], "right") - 1
    after = np.searchsorted(at, edges[1:], "left")
    covered = (before >= 0) & (after < len(at))
    last = len(at) - 1
    apart = at[np.clip(after, 0, last)] - at[np.clip(before, 0, last)]
    step = np.diff(at)
    usual = float(np.median(step[step > 0])) if (step > 0).any() else 0.0
    return np.where(covered & (apart <= np.diff(edges) + 2 * silent * usual), watts, np.nan)


def knots(source: Source, read: Read, gaps: Sequence[Gap]) -> tuple[Floats, Floats]:
    """(ns, J) at which a meter's energy is known; empty if it hardly moved."""
    if isinstance(read, Raw):
        series = Series(source, read.time_ns, read.value * source.scale, read.span_ns)
        curve = summary(series, gaps).curve
        if curve is None:
            return np.zeros(0), np.zeros(0)
        return curve.time_ns.astype(np.float64), curve.joules
    if source.is_energy_counter:
        return read.last_ns.astype(np.float64), _unwrapped(source, read.last)
    at = np.repeat(read.begin_ns.astype(np.float64), 2)
    at[1::2] += read.width_ns
    joules = np.zeros(len(at))
    joules[1::2] = read.mean * source.scale * read.width_ns / 1e9
    return at, np.cumsum(joules)


def _unwrapped(source: Source, value: Floats) -> Floats:
    step = np.diff(value)
    if source.wrap_raw:
        step = np.where(step < 0, step + source.wrap_raw, step)
    return np.concatenate([[0.0], np.cumsum(np.maximum(step, 0.0))]) * source.scale


def line(read: Read) -> tuple[Any, Floats]:
    """(ns, values) of readings, or of the middles of their buckets."""
    if isinstance(read, Raw):
        return read.time_ns, read.value
    return read.begin_ns + read.width_ns // 2, read.mean


def _extremes(read: Read, edges: Floats) -> tuple[Floats, Floats]:
    time_ns, value = line(read)
    least, most = (read.minimum, read.maximum) if isinstance(read, Rolled) else (value, value)
    low, high = (np.full(len(edges) - 1, np.nan) for _ in range(2))
    place = np.searchsorted(edges, time_ns, "right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    np.fmin.at(low, place[inside], least[inside])
    np.fmax.at(high, place[inside], most[inside])
    return low, high
