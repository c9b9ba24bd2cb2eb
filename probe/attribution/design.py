"""How long each column ran between two updates of the meter, as the meter's lag shows it.

A sensor with a first-order lag τ sees power P(t) as y(t) with τ y' = P − y, so energy seen
up to t is ∫P − τ (y(t) − y(0)): exactly linear in the columns. With H_j the filtered
indicator of column j, the row of an update interval is ΔC_j − τ ΔH_j.
(research: Part B1 of the estimator's notes; derivation in METHOD.md)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .columns import UNATTRIBUTED, Columns

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """Phase instances in order; time between them belongs to UNATTRIBUTED."""

    begin_s: Floats
    end_s: Floats
    code: Ints

    @classmethod
    def empty(cls) -> Spans:
        """None."""
        return cls(np.empty(0), np.empty(0), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.begin_s)

    def append(self, more: Spans) -> Spans:
        """These, then ``more``."""
        return Spans(
            np.concatenate([self.begin_s, more.begin_s]),
            np.concatenate([self.end_s, more.end_s]),
            np.concatenate([self.code, more.code]),
        )

    def after(self, time_s: float) -> Spans:
        """Those that end after ``time_s``."""
        k = int(np.searchsorted(self.end_s, time_s, "right"))
        return Spans(self.begin_s[k:], self.end_s[k:], self.code[k:])

    def until(self, time_s: float) -> Spans:
        """Those that begin by ``time_s``."""
        k = int(np.searchsorted(self.begin_s, time_s, "right"))
        return Spans(self.begin_s[:k], self.end_s[:k], self.code[:k])

    def filled(self) -> Spans:
        """With UNATTRIBUTED spans in the holes."""
        hole = np.flatnonzero(self.begin_s[1:] > self.end_s[:-1])
        if not len(hole):
            return self
        return Spans(
            np.insert(self.begin_s, hole + 1, self.end_s[hole]),
            np.insert(self.end_s, hole + 1, self.begin_s[hole + 1]),
            np.insert(self.code, hole + 1, UNATTRIBUTED),
        )


@dataclass(frozen=True, slots=True)
class Slices:
    """Spans cut into slices, with the columns that each adds to."""

    begin_s: Floats
    end_s: Floats
    column: Ints
    count: Ints  # column of the phase's count
    per_s: Floats  # instances per second while it runs: 1 / the instance's duration

    def __len__(self) -> int:
        return len(self.begin_s)


def cut(spans: Spans, columns: Columns) -> Slices:
    """Each span in as many equal slices as its phase has columns."""
    codes, place = np.unique(spans.code, return_inverse=True)
    known = [int(c) for c in codes]
    number = np.array([columns.slices_of[c] for c in known])[place]
    first = np.array([columns.first[c] for c in known])[place]
    count = np.array([columns.count_of[c] for c in known])[place]
    duration = spans.end_s - spans.begin_s
    at = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    step = np.repeat(duration / number, number)
    begin = np.repeat(spans.begin_s, number) + at * step
    last = at == np.repeat(number, number) - 1
    end = np.where(last, np.repeat(spans.end_s, number), begin + step)
    with np.errstate(divide="ignore"):
        per_s = np.where(duration > 0, 1.0 / duration, 0.0)
    return Slices(begin, end, np.repeat(first, number) + at, np.repeat(count, number),
                  np.repeat(per_s, number))


class Lane:
    """Rows for one assumed lag, clock offset and disturbance of the instants."""

    def __init__(self, tau_s: float, offset_s: float, disturb: float = 0.0):
        """``disturb``: instants are moved by this many standard errors times a common noise."""
        self.tau_s, self.offset_s, self.disturb = tau_s, offset_s, disturb
        self.last_s: float | None = None  # the last instant that was used
        self._level = np.empty(0)  # H at that instant

    def rows(self, instants_s: Floats, slices: Slices, width: int) -> tuple[Floats, Floats]:
        """(rows as the meter shows them, time per column), for the intervals that end at these.

        The first interval begins at the last instant of the call before; the very first
        instant ends none, so there is one row less. Slices must cover all of it.
        """
        if self.last_s is None:
            self.last_s = float(instants_s[0])
            at = min(int(np.searchsorted(slices.end_s, self.last_s, "right")), len(slices) - 1)
            self._level = np.zeros(width)
            self._level[slices.column[at]] = 1.0
            self._level[slices.count[at]] = slices.per_s[at]
            instants_s = instants_s[1:]
        if len(self._level) < width:
            self._level = np.pad(self._level, (0, width - len(self._level)))
        ends = np.maximum.accumulate(np.concatenate([[self.last_s], instants_s]))
        number = len(ends) - 1
        if not number:
            return np.empty((0, width)), np.empty((0, width))
        low = int(np.searchsorted(slices.end_s, ends[0], "right"))
        high = int(np.searchsorted(slices.begin_s, ends[-1], "left"))
        inside = slices.begin_s[low + 1 : high]
        borders = np.concatenate([ends, inside])
        borders.sort(kind="stable")
        begin, end = borders[:-1], borders[1:]
        seconds = end - begin
        middle = begin + seconds / 2
        at = np.searchsorted(slices.begin_s[low:high], middle, "right") - 1 + low
        row = np.searchsorted(ends, middle, "right") - 1
        row = np.minimum(row, number - 1)
        place = np.concatenate([row * width + slices.column[at], row * width + slices.count[at]])
        rate = slices.per_s[at]
        time = _sums(place, np.concatenate([seconds, seconds * rate]), number, width)
        if self.tau_s <= 0:
            self.last_s = float(ends[-1])
            return time, time
        until = ends[row + 1]
        gain = np.exp((end - until) / self.tau_s) - np.exp((begin - until) / self.tau_s)
        added = _sums(place, np.concatenate([gain, gain * rate]), number, width)
        decay = np.exp(-np.diff(ends) / self.tau_s)
        level = np.empty((number + 1, width))
        level[0] = self._level
        for k in range(number):
            level[k + 1] = decay[k] * level[k] + added[k]
        self.last_s, self._level = float(ends[-1]), level[-1]
        return time - self.tau_s * np.diff(level, axis=0), time


def _sums(place: Ints, amount: Floats, number: int, width: int) -> Floats:
    """Sums by place = row · width + column."""
    total = np.bincount(place, amount, number * width)
    return np.asarray(total[: number * width], np.float64).reshape(number, width)
