"""The straight line through the updates of a counter that updates evenly."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Bools, Floats, Ints

_AVERAGED = 25  # brackets at most over which their scatter is taken to average out
_SHORTEST_S = 1e-4  # no counter updates faster than it can be read
_HALF_WAY = 0.4  # of the usual distance: closer together, two changes are one update in two parts
_LATE = 5.0  # so many times the usual, outside its bracket, a time on the line has come late
_OF_MEDIAN = 1.4826
# Periods that are tried around the mean distance, so many for each turn of the last update against
# the first; of updates that lie on one lattice so much of their resultant is left.
_ALMOST, _PER_TURN, _REGULAR = 0.12, 6, 0.5
_MOST_TRIED = 500  # on either side: over some 700 periods there is no saying


class Line(NamedTuple):
    """When updates come: at ``start_s`` + place · ``period_s``."""

    start_s: float
    period_s: float
    error_s: float  # standard error of a time on the line
    late_s: float  # an update whose bracket is further off than this came late, or early


def fit_line(index: Floats, middle: Floats, width: Floats, *, again: bool = True) -> Line:
    """The line through updates, without those that came late where the others come evenly.

    Args:
        index, middle, width: places of updates, middles and widths in s of their brackets, (n,).
        again: fit again without those that came late.
    """
    count = len(index)
    if count == 1:  # the period is unknown: no update that was not seen closely is dated
        return Line(float(middle[0] - index[0]), 1.0, math.inf, math.inf)
    bracket_sigma = sigma_of(width)
    if count == 2:
        period = _positive(float(middle[1] - middle[0]) / float(index[1] - index[0]))
        return Line(float(middle[0]) - period * float(index[0]), period, bracket_sigma, math.inf)
    mean_i, mean_t = float(index.sum()) / count, float(middle.sum()) / count
    off_i, off_t = index - mean_i, middle - mean_t
    period = _positive(float(off_i @ off_t) / float(off_i @ off_i))
    start = mean_t - period * mean_i
    rest = off_t - period * off_i
    # The brackets' own scatter averages out along the line, the updates' does not.
    averaged = bracket_sigma**2 / min(_AVERAGED, count / 2)
    late_s = math.inf
    outside = np.abs(rest) - width / 2
    if float(outside.max()) > _LATE * math.sqrt(averaged):
        usual = _OF_MEDIAN * max(0.0, float(np.median(outside)))
        late_s = _LATE * (usual + math.sqrt(averaged))
        kept = outside <= late_s
        if again and not kept.all():
            line = fit_line(index[kept], middle[kept], width[kept], again=False)
            return line._replace(late_s=late_s)
    scatter = float(rest @ rest) / (count - 2)
    error = math.sqrt(max(scatter - bracket_sigma**2, 0.0) + averaged)
    return Line(start, period, error, late_s)


def sigma_of(width: Floats) -> float:
    """Standard error in s of a time that is known by a bracket like these (n,) only."""
    return math.sqrt(float(width @ width) / (12 * len(width)))


def first_parts(middle: Floats) -> Bools:
    """Which changes at these times (n,) are the first part of an update that came in two."""
    gaps = np.diff(middle)
    if not len(gaps):
        return np.zeros(len(middle), np.bool_)
    return np.append(gaps < _HALF_WAY * np.median(gaps), False)


def placed(ordinal: Ints, middle: Floats, width: Floats, parts: Ints) -> Floats:
    """The first updates on a lattice: their places from 0 on, middles and widths, (3, m ≤ n).

    Of those that have one place the last is taken; the others came late.

    Args:
        ordinal: each one's number among all changes that were seen, these and others, (n,).
        middle, width: of their brackets in s, (n,).
        parts: the numbers of changes that are parts of updates, (k,).
    """
    index = _places(middle, ordinal - np.searchsorted(parts, ordinal))
    last = np.append(np.diff(index) > 0, True)
    return np.stack([index, middle, width])[:, last]


def _places(middle: Floats, ordinal: Ints) -> Floats:
    """Places on the lattice that updates at these times (n,) have, the first one 0; ascending."""
    if len(middle) < 3:
        return np.asarray(ordinal - ordinal[:1], np.float64)
    seen = np.diff(ordinal)
    step = np.diff(middle) / seen
    usual = step < 1.5 * np.median(step)
    # Wide brackets blur short steps; their mean is unbiased.
    period = _positive(float(np.sum((step * seen)[usual]) / np.sum(seen[usual])))
    off = middle - middle[0]
    slope, start = _most_regular(off, period)
    index = np.concatenate([[0.0], np.cumsum(np.round(np.diff(middle) / period))])
    if slope:
        index = np.maximum.accumulate(np.round((off - start) / slope))
    for _ in range(2):
        slope, start = np.polyfit(index, off, 1)
        if slope <= 0:
            break
        index = np.maximum.accumulate(np.round((off - start) / slope))
    return np.asarray(index - index[0])


def _most_regular(time_s: Floats, period_s: float) -> tuple[float, float]:
    """The lattice with nearly this period on which most of these times (n,) lie.

    The mean distance is off by as much as updates are missed or come late, and over the 60 periods
    of a first window one part in 100 is more than half a period.

    Returns:
        Its period and the time of a place, in s; 0 and 0 where there is none.
    """
    tried = 1 + int(_PER_TURN * _ALMOST * time_s[-1] / period_s)
    if not 0 < tried <= _MOST_TRIED:
        return 0.0, 0.0
    periods = period_s * (1 + np.linspace(-_ALMOST, _ALMOST, 2 * tried + 1))
    resultants = np.exp(2j * np.pi * time_s / periods[:, None]).mean(1)
    best = int(np.argmax(np.abs(resultants)))
    if abs(resultants[best]) < _REGULAR:
        return 0.0, 0.0
    return float(periods[best]), float(np.angle(resultants[best]) / (2 * np.pi) * periods[best])


def _positive(period_s: float) -> float:
    """Reads whose calls overlap can make updates seem to go back in time."""
    return period_s if period_s > 0 else _SHORTEST_S
