"""The straight line through the updates of a counter that updates evenly."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..arrays import Floats

_AVERAGED = 25  # brackets at most over which their scatter is taken to average out
_SHORTEST_S = 1e-4  # no counter updates faster than it can be read


def fit_line(index: Floats, middle: Floats, bracket_sigma: float) -> tuple[float, float, float]:
    """(time of place 0, period, standard error of a time on the line), in s.

    Args:
        index, middle: places of updates, and the middles of their brackets, (n,).
        bracket_sigma: standard error of a time that is known by its bracket only.
    """
    count = len(index)
    if count == 1:  # the period is unknown: no update that was not seen closely is dated
        return float(middle[0] - index[0]), 1.0, math.inf
    if count == 2:
        period = _positive(float(middle[1] - middle[0]) / float(index[1] - index[0]))
        return float(middle[0]) - period * float(index[0]), period, bracket_sigma
    mean_i, mean_t = float(index.sum()) / count, float(middle.sum()) / count
    off_i, off_t = index - mean_i, middle - mean_t
    period = _positive(float(off_i @ off_t) / float(off_i @ off_i))
    start = mean_t - period * mean_i
    rest = off_t - period * off_i
    scatter = float(rest @ rest) / (count - 2)
    # The brackets' own scatter averages out along the line, the updates' does not.
    averaged = bracket_sigma**2 / min(_AVERAGED, count / 2)
    return start, period, math.sqrt(max(scatter - bracket_sigma**2, 0.0) + averaged)


def places_of(middle: Floats, ordinal: npt.NDArray[np.int64]) -> list[int]:
    """Places on the lattice that updates at these times have, the first one 0.

    Args:
        middle: middles of their brackets in s, (n,).
        ordinal: each one's number among all changes that were seen, these and others, (n,).
    """
    if len(middle) < 3:
        return [int(i) for i in ordinal - ordinal[0]] if len(ordinal) else []
    seen = np.diff(ordinal)
    step = np.diff(middle) / seen
    usual = step < 1.5 * np.median(step)
    # Wide brackets blur short steps; their mean is unbiased.
    period = _positive(float(np.sum((step * seen)[usual]) / np.sum(seen[usual])))
    index = np.concatenate([[0.0], np.cumsum(np.maximum(1, np.round(np.diff(middle) / period)))])
    for _ in range(2):
        slope, start = np.polyfit(index, middle - middle[0], 1)
        if slope <= 0:
            break
        index = np.round((middle - middle[0] - start) / slope)
        index = np.maximum.accumulate(index - np.arange(len(index))) + np.arange(len(index))
    return [int(i) for i in index - index[0]]


def _positive(period_s: float) -> float:
    """Reads whose calls overlap can make updates seem to go back in time."""
    return period_s if period_s > 0 else _SHORTEST_S
