"""When a counter moved: from reads that caught a change to instants of updates.

An update lies between the last read of the old value and the first read of the new
one. A counter updates on a lattice, so a straight line through the middles of the 51
brackets around an update (25 on either side) dates it several times better than its own
bracket; the result is clipped to the bracket, in which the update certainly lies.

Streaming: an update comes out 25 updates after it happened, and what comes out does not
depend on how the reads were cut into batches. Times are seconds on the run's clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

HALF = 25  # updates on either side of the one that is dated
WINDOW = 2 * HALF + 1
WIDE_S = 0.0125  # a wider bracket is not used: its update merges with the next
_HOLE_PERIODS = 20  # a longer silence begins a new lattice


@dataclass(frozen=True, slots=True)
class Updates:
    """Dated updates; arrays of one length n.

    ``joules`` is the counter from an arbitrary zero; ``sigma_s`` the standard error of
    ``time_s``, ``slack_s`` the half-width of its bracket. Where ``fresh`` is set the energy
    since the update before is unknown (a reset, a gap). ``horizon_s``: an update is decided
    when the reads up to here are known.
    """

    time_s: Floats
    joules: Floats
    sigma_s: Floats
    slack_s: Floats
    horizon_s: Floats
    fresh: Bools

    @classmethod
    def of(cls, rows: Sequence[tuple[float, float, float, float, float, bool]]) -> Updates:
        """From rows in the order of the fields."""
        table = np.array(rows, np.float64).reshape(-1, 6)
        time_s, joules, sigma_s, slack_s, horizon_s, fresh = table.T.copy()
        return cls(time_s, joules, sigma_s, slack_s, horizon_s, fresh > 0)

    @classmethod
    def concat(cls, parts: Sequence[Updates]) -> Updates:
        """One after the other."""
        if not parts:
            return cls.of([])
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, which: slice | Bools) -> Updates:
        """The chosen ones."""
        return Updates(*(getattr(self, f.name)[which] for f in fields(self)))


class Lattice:
    """Feed the reads of one counter in order; collect dated updates."""

    exact = False

    def __init__(self, *, wrap_j: float | None = None, resolution_s: float | None = None):
        """
        Args:
            wrap_j: the value at which the counter starts again from 0; without it a
                falling counter is a reset.
            resolution_s: how old a value can be when it is read, where that is less than
                the time between two reads (RAPL: 1 ms).
        """
        self._wrap_j, self._resolution_s = wrap_j, resolution_s
        self._before: tuple[float, float, float] | None = None  # time, duration, value
        self._joules = 0.0
        self._first = True
        self._fresh = False
        self._low: list[float] = []
        self._high: list[float] = []
        self._value: list[float] = []
        self._new: list[bool] = []
        self._index: list[int] = []  # place on the lattice; empty until the first fit
        self._fitted = np.empty((3, 0))  # places, middles and squared widths of the held ones
        self._line = (0.0, 1.0, 0.0)  # time of place 0, period, standard error of a time
        self._emitted = 0  # of the held ones
        self._out: list[tuple[float, float, float, float, float, bool]] = []

    def feed(self, time_s: Floats, span_s: Floats, joules: Floats) -> Updates:
        """Reads: when they returned, how long they took, what they said in J."""
        for time, span, value in zip(
            time_s.tolist(), span_s.tolist(), joules.tolist(), strict=True
        ):
            before = self._before
            self._before = time, span, value
            if before is not None and value != before[2]:
                self._changed(before, time, span, value)
        return self._take()

    @property
    def period_s(self) -> float:
        """Of the lattice; 1 s until it is known."""
        return self._line[1]

    def interrupt(self) -> None:
        """What the counter does from the last read to the next is not energy."""
        self._before = None
        self._fresh = True

    def finish(self) -> Updates:
        """The updates that were held back."""
        self._flush()
        return self._take()

    def _take(self) -> Updates:
        out, self._out = self._out, []
        return Updates.of(out)

    def _changed(
        self, before: tuple[float, float, float], time: float, span: float, value: float
    ) -> None:
        step = value - before[2]
        if step < 0 and self._wrap_j is not None:
            step += self._wrap_j
        if step < 0:
            self._fresh = True
            step = 0.0
        if self._first:  # it only dates the counter: what it added happened before
            self._first, self._fresh, step = False, True, 0.0
        self._joules += step
        low, high = before[0] - before[1], time
        if self._resolution_s is not None:
            low = max(low, high - span - self._resolution_s)
        recent = [b - a for a, b in zip(self._low[-8:], self._high[-8:], strict=True)]
        if high - low > max(WIDE_S, 1.6 * min(recent, default=math.inf)) and (
            self._resolution_s is None
        ):
            return
        self._add(low, high)

    def _add(self, low: float, high: float) -> None:
        middle = (low + high) / 2
        if self._index:
            period = self._line[1]
            if middle - (self._low[-1] + self._high[-1]) / 2 > _HOLE_PERIODS * period:
                self._flush()
        self._low.append(low)
        self._high.append(high)
        self._value.append(self._joules)
        self._new.append(self._fresh)
        self._fresh = False
        if self._index:
            start, period, _ = self._line
            self._index.append(max(self._index[-1] + 1, round((middle - start) / period)))
            newest = [[self._index[-1]], [middle], [(high - low) ** 2]]
            self._fitted = np.concatenate([self._fitted[:, -HALF - HALF :], newest], axis=1)
            if len(self._low) > WINDOW:
                for held in self._held():
                    del held[0]
                self._emitted -= 1
            self._line = self._fit()
            self._emit(HALF + 1)
        elif len(self._low) == WINDOW:
            self._begin()
            self._emit(HALF + 1)

    def _held(self) -> tuple[list[Any], ...]:
        return self._low, self._high, self._value, self._new, self._index

    def _begin(self) -> None:
        """First fit: places on the lattice from the distances."""
        low, high = np.array(self._low), np.array(self._high)
        middle = (low + high) / 2
        self._index = _places(middle)
        self._fitted = np.stack([np.array(self._index, np.float64), middle, (high - low) ** 2])
        self._line = self._fit()

    def _flush(self) -> None:
        """Date what is held with the line at hand; what follows is another lattice."""
        if self._low:
            if not self._index:
                self._begin()
            self._emit(len(self._low))
        for held in self._held():
            held.clear()
        self._emitted = 0

    def _fit(self) -> tuple[float, float, float]:
        """(time of place 0, period, standard error of a time on the line) of what is held."""
        index, middle, square = self._fitted
        count = len(index)
        spread = float(square.sum()) / (12 * count)
        if count < 3:
            period = float(middle[-1] - middle[0]) if count > 1 else 1.0
            return float(middle[0]) - period * float(index[0]), period, math.sqrt(spread)
        mean_i, mean_t = float(index.sum()) / count, float(middle.sum()) / count
        off_i, off_t = index - mean_i, middle - mean_t
        period = float(off_i @ off_t) / float(off_i @ off_i)
        start = mean_t - period * mean_i
        rest = off_t - period * off_i
        scatter = float(rest @ rest) / (count - 2)
        # The brackets' own scatter averages out along the line, the updates' does not.
        sigma = math.sqrt(min(spread, max(scatter - spread, 0.0) + spread / HALF))
        return start, period, sigma

    def _emit(self, until: int) -> None:
        start, period, sigma = self._line
        horizon = self._high[-1]
        while self._emitted < until:
            i = self._emitted
            low, high = self._low[i], self._high[i]
            time = min(max(start + period * self._index[i], low), high)
            self._out.append((time, self._value[i], sigma, (high - low) / 2, horizon,
                              self._new[i]))
            self._emitted += 1


def _places(middle: Floats) -> list[int]:
    """Places on the lattice that updates at these times have, the first one 0."""
    if len(middle) < 3:
        return list(range(len(middle)))
    steps = np.diff(middle)
    period = float(np.median(steps))
    # Wide brackets blur short steps; their mean is unbiased.
    period = float(np.mean(steps[steps < 1.5 * period]))
    index = np.concatenate([[0.0], np.cumsum(np.maximum(1, np.round(steps / period)))])
    for _ in range(2):
        slope, start = np.polyfit(index, middle - middle[0], 1)
        if slope <= 0:
            break
        index = np.round((middle - middle[0] - start) / slope)
        index = np.maximum.accumulate(index - np.arange(len(index))) + np.arange(len(index))
    return [int(i) for i in index - index[0]]
