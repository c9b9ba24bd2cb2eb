"""From what a meter says to the knots of an energy curve, read by read or at once.

A counter moves in steps: its value is the energy up to the last *update*, so only
the instants at which it changed carry information. An instant is known to lie
between the last read of the old value and the first read of the new one; the middle
is taken, the half-width kept. Updates that were not caught closely are set evenly
between those that were; after a silence the last one is at most a period old. Sampled
power is summed up between samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arrays import ArrayTable, Bools, Floats, Times
from .energy_curve import EnergyCurve
from .update_times import CLOSE, WIDE_S

_WIDER = 1.6  # a bracket wider than the narrow ones by this is not close
_SILENCE = 20  # periods
_IRREGULAR = 0.05  # updates further apart than usual by this share are not evenly spaced


class EnergyKnots(Protocol):
    """Holds the reads of one meter; :meth:`curve` is what they come to.

    ``resets``: how often the meter started anew, over all that were fed.
    """

    resets: int

    def feed(self, time_ns: Times, value: Floats, span_ns: Times) -> None:
        """Take reads in order, arrays (n,): when each returned, its value, how long it took."""

    def restart(self, at_ns: int) -> None:
        """Note that the meter started anew at this instant."""

    def curve(self) -> EnergyCurve | None:
        """The curve of the reads that are held; None if they are too few.

        Its energy counts from the first read that ever was.
        """

    def forget(self, before_ns: int) -> None:
        """Drop reads before this instant: they are not needed any more."""


@dataclass(frozen=True, slots=True)
class _Reads(ArrayTable):
    """Reads of a counter, arrays (n,): its energy since the first read, and whether it moved."""

    time_ns: Times
    span_ns: Times
    joules: Floats
    moved: Bools


class CounterKnots:
    """Knots of a cumulative counter: the instants at which its value changed."""

    def __init__(self, wrap_j: float | None = None, resolution_s: float | None = None):
        """Knots of a counter that was not read yet.

        Args:
            wrap_j: the value at which the counter starts again from 0; without it a
                falling counter is a reset.
            resolution_s: how old a value can be when it is read, where that is known to be
                less than the time between two reads (RAPL: 1 ms).
        """
        self._wrap_j, self._resolution_s = wrap_j, resolution_s
        none = np.empty(0, np.int64)
        self._reads = _Reads(none, none, np.empty(0), np.empty(0, np.bool_))
        self._last: tuple[int, float, float] | None = None  # time, value, cumulative joules
        self._restarts_ns: list[int] = []
        self.resets = 0

    def restart(self, at_ns: int) -> None:
        """Count nothing of what changes across this instant: no energy, and no wraparound."""
        self._restarts_ns.append(at_ns)

    def feed(self, time_ns: Times, value: Floats, span_ns: Times) -> None:
        """Take further reads in order, arrays (n,); ``value`` in J."""
        if not len(time_ns):
            return
        if self._last is None:
            self._last = int(time_ns[0]), float(value[0]), 0.0
        last_ns, last_value, last_j = self._last
        steps = np.diff(value, prepend=last_value)
        moved = steps != 0
        falling = steps < 0
        if self._wrap_j is not None:
            steps = np.where(falling, steps + self._wrap_j, steps)
            falling = steps < 0
        # A restart lies between the read before a change and the first read after it.
        restarts_before = np.searchsorted(np.sort(self._restarts_ns), np.append(last_ns, time_ns))
        anew = moved & (falling | (np.diff(restarts_before) > 0))
        self.resets += int(anew.sum())
        joules = last_j + np.cumsum(np.where(anew, 0.0, steps))
        self._reads = _Reads.concat([self._reads, _Reads(time_ns, span_ns, joules, moved)])
        self._last = int(time_ns[-1]), float(value[-1]), float(joules[-1])

    def forget(self, before_ns: int) -> None:
        """Drop reads before this instant, and those in the middle of a value that stayed."""
        moved = self._reads.moved
        telling = moved.copy()
        telling[:-1] |= moved[1:]
        telling[-1:] = True
        self._reads = self._reads.take(telling & (self._reads.time_ns >= before_ns))

    def curve(self) -> EnergyCurve | None:
        """The curve of the reads that are held; None if the counter changed less than twice."""
        reads = self._reads
        # Held reads may begin amid the run: what is before the first of them is not known.
        changed = np.flatnonzero(reads.moved[1:]) + 1
        if len(changed) < 2:
            return None
        time_ns, span_ns = reads.time_ns, reads.span_ns
        low, high = time_ns[changed - 1] - span_ns[changed - 1], time_ns[changed]
        if self._resolution_s is not None:
            low = np.maximum(low, high - span_ns[changed] - round(self._resolution_s * 1e9))
        middle, close, kept = _dated(low, high)
        return EnergyCurve(
            time_ns=middle[kept].astype(np.int64),
            joules=reads.joules[changed][kept].astype(np.float64),
            slack_ns=float(np.median((high - low)[close])) / 2,
            period_s=float(np.median(np.diff(middle))) / 1e9,
            resets=self.resets,
        )


class PowerKnots:
    """Knots of sampled power: its integral at every sample."""

    def __init__(self, *, means: bool = False):
        """Knots of a power meter that was not read yet.

        Args:
            means: a sample is the mean since the one before; else the power of that moment
                (trapezoid).
        """
        self._means = means
        self._time_ns = np.empty(0, np.int64)
        self._joules = np.empty(0)
        self._watts = 0.0  # of the last sample
        self.resets = 0

    def restart(self, at_ns: int) -> None:
        """Do nothing: power has no memory."""

    def feed(self, time_ns: Times, value: Floats, span_ns: Times) -> None:
        """Take further samples in order, arrays (n,); ``value`` in W."""
        if not len(time_ns):
            return
        if not len(self._time_ns):
            self._time_ns, self._joules = time_ns[:1].copy(), np.zeros(1)
            self._watts = float(value[0])
            time_ns, value = time_ns[1:], value[1:]
        before = np.concatenate([[self._watts], value])[:-1]
        mean = value if self._means else (value + before) / 2
        seconds = np.diff(time_ns, prepend=self._time_ns[-1]) / 1e9
        self._joules = np.concatenate([self._joules, self._joules[-1] + np.cumsum(seconds * mean)])
        self._time_ns = np.concatenate([self._time_ns, time_ns])
        self._watts = float(value[-1]) if len(value) else self._watts

    def forget(self, before_ns: int) -> None:
        """Drop samples before this instant."""
        keep = self._time_ns >= before_ns
        keep[-1:] = True
        self._time_ns, self._joules = self._time_ns[keep], self._joules[keep]

    def curve(self) -> EnergyCurve | None:
        """The curve of the samples that are held; None with fewer than two."""
        if len(self._time_ns) < 2:
            return None
        period_s = float(np.median(np.diff(self._time_ns))) / 1e9
        return EnergyCurve(self._time_ns, self._joules, 0.0, period_s)


def _dated(low: Times, high: Times) -> tuple[Times, Bools, Bools]:
    """When each update was, in its bracket [low, high], and which brackets are close.

    A counter that is mostly read once between its updates has brackets of a whole period. Those
    are set evenly between the updates that were caught closely, since updates come at equal
    intervals. Where they do not, because one was missed, they are left out: their energy comes with
    the next. A bracket that ends a silence holds several updates, and its value is of the last.

    Args:
        low, high: the brackets in ns, (n,) each.

    Returns:
        (times in ns, which are close, which are kept), (n,) each.
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
    # The shortest periods count: a counter that is read sparsely is read densely after a silence.
    latest = high - round(float(np.quantile(step, 0.1)) / 2)
    middle = np.where(close, middle, np.maximum(middle, latest))
    usable = ~close & regular & (low < even_ns) & (even_ns < high)
    apart = step[gap] * np.diff(caught)[gap] > _SILENCE * period  # nothing near to lean on
    kept = close | usable | beyond | apart
    return np.where(usable, even_ns, middle), close, kept
