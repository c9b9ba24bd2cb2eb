"""The energy of one device as a function of time, from a counter or from sampled power.

A counter moves in steps: its value is the energy up to the last *update*, so only
the instants at which it changed carry information. An instant is known to lie
between the last read of the old value and the first read of the new one; the middle
is taken, the half-width kept. Updates that were not caught closely are set evenly
between those that were. Between updates energy is a straight line. Before the first
and after the last update nothing was measured: the curve goes on at the power next to
it, and the caller learns how much of the energy that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .lattice import CLOSE, WIDE_S

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Mean power over so many updates, and so much time, continues the curve beyond its ends: the
# error of two update instants must not become one of power.
_EDGE_INTERVALS = 5
_EDGE_NS = 500_000_000
_WIDER = 1.6  # a bracket wider than the narrow ones by this is not close
_SILENCE = 20  # periods
_IRREGULAR = 0.05  # updates further apart than usual by this share are not evenly spaced


@dataclass(frozen=True, slots=True)
class EnergyCurve:
    """Knots of the cumulative energy: ``joules[k]`` had been used at ``time_ns[k]``.

    ``slack_ns`` is the half-width within which a knot's time is known, as a rule;
    ``period_s`` the median distance of knots; ``resets`` how often the counter
    started anew (energy across a reset is unknown and not counted).
    """

    time_ns: Times
    joules: Floats
    slack_ns: float
    period_s: float
    resets: int = 0

    def at(self, time_ns: Times) -> Floats:
        """Cumulative energy in J at any time; beyond the knots at the power next to them."""
        inside = np.interp(time_ns, self.time_ns, self.joules)
        before = np.minimum(0, time_ns - self.time_ns[0])
        after = np.maximum(0, time_ns - self.time_ns[-1])
        return np.asarray(inside + before * self._slope(0) + after * self._slope(-1))

    def measured_share(self, begin_ns: int, end_ns: int) -> float:
        """Share of [begin, end) that lies between the first and the last knot."""
        inside = min(end_ns, int(self.time_ns[-1])) - max(begin_ns, int(self.time_ns[0]))
        return max(0.0, inside / max(1, end_ns - begin_ns))

    def mean_power_w(self) -> float:
        """Mean power in W between the first and the last knot."""
        span = int(self.time_ns[-1] - self.time_ns[0])
        return float(self.joules[-1] - self.joules[0]) / (span / 1e9) if span else 0.0

    def length_s(self) -> float:
        """Seconds from the first to the last knot."""
        return float(self.time_ns[-1] - self.time_ns[0]) / 1e9

    def highest_power_w(self) -> float:
        """Highest mean power in W between two knots that are at least a period apart."""
        spans = np.diff(self.time_ns) / 1e9
        usual = spans > 0.5 * self.period_s
        powers = np.diff(self.joules)[usual] / spans[usual]
        return float(powers.max()) if len(powers) else self.mean_power_w()

    def _slope(self, end: int) -> float:
        most = len(self.time_ns) - 1
        if end == 0:
            far = int(np.searchsorted(self.time_ns, self.time_ns[0] + _EDGE_NS))
            first, last = 0, min(most, max(_EDGE_INTERVALS, far))
        else:
            far = int(np.searchsorted(self.time_ns, self.time_ns[-1] - _EDGE_NS, "right")) - 1
            first, last = max(0, min(most - _EDGE_INTERVALS, far)), most
        return float(self.joules[last] - self.joules[first]) / float(
            max(1, self.time_ns[last] - self.time_ns[first])
        )


def from_counter(
    time_ns: Times, joules: Floats, span_ns: Times, wrap_j: float | None = None,
    *, restarts_ns: Times | None = None, resolution_s: float | None = None,
) -> EnergyCurve | None:
    """Curve of a cumulative counter; None if it changed less than twice.

    Args:
        time_ns: when each read returned, increasing.
        joules: the counter, scaled to J.
        span_ns: how long each read took.
        wrap_j: the value at which the counter starts again from 0; without it a
            falling counter is a reset.
        restarts_ns: instants at which the sensor says that it started anew: what
            changed across one is neither energy nor a wraparound.
        resolution_s: how old a value can be when it is read, where that is known to be
            less than the time between two reads (RAPL: 1 ms).
    """
    changed = np.flatnonzero(np.diff(joules) != 0) + 1
    if len(changed) < 2:
        return None
    increments = np.diff(joules)[changed - 1]
    falling = increments < 0
    if wrap_j is not None:
        increments = np.where(falling, increments + wrap_j, increments)
        falling = increments < 0
    if restarts_ns is not None and len(restarts_ns):
        # A restart lies between the read before a change and the first read after it.
        said = np.searchsorted(np.sort(restarts_ns), time_ns)
        falling |= np.diff(said)[changed - 1] > 0
    increments = np.where(falling, 0.0, increments)
    low, high = time_ns[changed - 1] - span_ns[changed - 1], time_ns[changed]
    if resolution_s is not None:
        low = np.maximum(low, high - span_ns[changed] - round(resolution_s * 1e9))
    middle, close, kept = _dated(low, high)
    # The first change only dates the counter: what it added happened before.
    cumulative = np.cumsum(increments) - increments[0]
    return EnergyCurve(
        time_ns=middle[kept].astype(np.int64),
        joules=cumulative[kept].astype(np.float64),
        slack_ns=float(np.median((high - low)[close])) / 2,
        period_s=float(np.median(np.diff(middle))) / 1e9,
        resets=int(falling.sum()),
    )


def _dated(low: Times, high: Times) -> tuple[Times, Bools, Bools]:
    """When each update was, in its bracket [low, high], and which brackets are close.

    A counter that is mostly read once between its updates has brackets of a whole period. Those
    lie evenly between the updates that were caught closely, for updates form a lattice. Where
    they do not, for one was missed, they are left out: their energy comes with the next.

    Returns:
        (times, which are close, which are kept).
    """
    middle, width = (low + high) // 2, high - low
    usual = min(WIDE_S * 1e9, CLOSE * float(np.median(np.diff(middle))))
    close = width <= max(usual, _WIDER * float(np.quantile(width, 0.1)))
    caught = np.flatnonzero(close)
    if close.all() or len(caught) < 2:
        return middle, close, np.ones(len(close), bool)
    place = np.arange(len(middle))
    step = np.diff(middle[caught]) / np.diff(caught)
    period = float(np.median(step))
    gap = np.clip(np.searchsorted(caught, place, "right") - 1, 0, len(step) - 1)
    even = np.interp(place, caught, middle[caught] - middle[0])
    even += period * (np.minimum(0, place - caught[0]) + np.maximum(0, place - caught[-1]))
    beyond = (place < caught[0]) | (place > caught[-1])
    regular = beyond | (np.abs(step[gap] / period - 1) < _IRREGULAR)
    even_ns = middle[0] + even.astype(np.int64)
    usable = ~close & regular & (low < even_ns) & (even_ns < high)
    apart = step[gap] * np.diff(caught)[gap] > _SILENCE * period  # nothing near to lean on
    kept = close | usable | beyond | apart
    return np.where(usable, even_ns, middle), close, kept


def from_power(time_ns: Times, watts: Floats, *, means: bool = False) -> EnergyCurve | None:
    """Curve of sampled power; None with fewer than two samples.

    Args:
        means: a sample is the mean since the one before; else the power of that moment
            (trapezoid).
    """
    if len(time_ns) < 2:
        return None
    seconds = np.diff(time_ns) / 1e9
    middle = watts[1:] if means else (watts[1:] + watts[:-1]) / 2
    joules = np.concatenate([[0.0], np.cumsum(seconds * middle)])
    return EnergyCurve(time_ns, joules, 0.0, float(np.median(seconds)))
