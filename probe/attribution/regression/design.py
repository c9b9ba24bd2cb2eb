"""How long each column ran between two updates of the meter, as the meter's lag shows it.

A sensor with a first-order lag τ sees power P(t) as y(t) with τ y' = P − y, so energy seen
up to t is ∫P − τ (y(t) − y(0)): exactly linear in the columns. With H_j the filtered
indicator of column j, the row of an update interval is ΔC_j − τ ΔH_j.
METHOD.md says where this comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..arrays import ArrayTable, Floats, Ints
from .columns import UNATTRIBUTED, Columns
from .iir_filter import fading


@dataclass(frozen=True, slots=True)
class Spans(ArrayTable):
    """Phase instances in order of time, arrays (n,); time between them belongs to UNATTRIBUTED."""

    begin_s: Floats
    end_s: Floats
    code: Ints

    @classmethod
    def empty(cls) -> Spans:
        """Spans without any instance."""
        return cls(np.empty(0), np.empty(0), np.empty(0, np.int64))

    def append(self, more: Spans) -> Spans:
        """These spans, then ``more``."""
        return self.concat([self, more])

    def codes(self) -> list[int]:
        """The codes that occur, ascending."""
        if not len(self):
            return []
        lowest = int(self.code.min())
        return [lowest + at for at in np.flatnonzero(np.bincount(self.code - lowest)).tolist()]

    def after(self, time_s: float) -> Spans:
        """The spans that end after ``time_s``."""
        return self.take(slice(np.searchsorted(self.end_s, time_s, "right"), None))

    def until(self, time_s: float) -> Spans:
        """The spans that begin by ``time_s``."""
        return self.take(slice(np.searchsorted(self.begin_s, time_s, "right")))

    def ending_by(self, time_s: float) -> Spans:
        """The spans that end by ``time_s``."""
        return self.take(slice(np.searchsorted(self.end_s, time_s, "right")))

    def moments(self) -> dict[int, Floats]:
        """By code, (count, Σd, Σd²) of the instances' durations d in s, (3,)."""
        codes = self.codes()
        if not codes:
            return {}
        place, duration = self.code - codes[0], self.end_s - self.begin_s
        table = np.stack(
            [np.bincount(place, weights) for weights in (None, duration, duration * duration)],
            axis=1,
        )
        return {code: table[code - codes[0]] for code in codes}

    def reaching_from(self, before: Spans) -> Spans:
        """These, with an UNATTRIBUTED span in front if they leave a hole after ``before``."""
        end_s = before.end_s[-1:]
        if not len(end_s) or not len(self) or self.begin_s[0] <= end_s[0]:
            return self
        return Spans(end_s, self.begin_s[:1], np.array([UNATTRIBUTED])).append(self)

    def filled(self) -> Spans:
        """These, with UNATTRIBUTED spans in the holes between them."""
        hole = np.flatnonzero(self.begin_s[1:] > self.end_s[:-1])
        if not len(hole):
            return self
        return Spans(
            np.insert(self.begin_s, hole + 1, self.end_s[hole]),
            np.insert(self.end_s, hole + 1, self.begin_s[hole + 1]),
            np.insert(self.code, hole + 1, UNATTRIBUTED),
        )


@dataclass(frozen=True, slots=True)
class SpanSlices(ArrayTable):
    """Spans cut into n slices, with the columns that each adds to; arrays (n,)."""

    begin_s: Floats
    end_s: Floats
    column: Ints
    count: Ints  # column of the phase's count
    per_s: Floats  # instances per second while it runs: 1 / the instance's duration


def cut(spans: Spans, columns: Columns) -> SpanSlices:
    """Cut each span into as many equal slices as its phase has columns."""
    codes = spans.codes()
    place = np.zeros(1 + max(codes) - min(codes), np.int64)
    place[np.array(codes) - min(codes)] = np.arange(len(codes))
    place = place[spans.code - min(codes)]
    number = np.array([columns.slices_of[c] for c in codes])[place]
    first = np.array([columns.first[c] for c in codes])[place]
    count = np.array([columns.count_of[c] for c in codes])[place]
    duration = spans.end_s - spans.begin_s
    with np.errstate(divide="ignore"):
        per_s = np.where(duration > 0, 1.0 / duration, 0.0)
    if number.max() == 1:
        return SpanSlices(spans.begin_s, spans.end_s, first, count, per_s)
    at = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    step = np.repeat(duration / number, number)
    begin = np.repeat(spans.begin_s, number) + at * step
    last = at == np.repeat(number, number) - 1
    end = np.where(last, np.repeat(spans.end_s, number), begin + step)
    return SpanSlices(
        begin,
        end,
        np.repeat(first, number) + at,
        np.repeat(count, number),
        np.repeat(per_s, number),
    )


class Crossing(NamedTuple):
    """Slices that follow each other without a hole, cut at the borders of n rows.

    A row has one *head*, the slice that runs when it begins, and as many *bodies* as slices
    begin in it; each runs until the next begins or the row ends.
    """

    ends_s: Floats  # (n + 1,) ends of the rows, the first row's begin before them
    width: int
    head: SpanSlices  # n, one a row, cut
    body: SpanSlices  # m in order, cut
    number: Ints  # (n,) bodies of each row
    last: Ints  # place of each row's last body; rows without any are left out
    columns: Ints  # (m,) places of the bodies in the flat table of rows and columns
    counts: Ints  # (m,) the same, of the phases' counts

    def time(self) -> Floats:
        """Seconds per row and column, instances per row and count; (n, width)."""
        return self._sums(self.head.end_s - self.head.begin_s, self.body.end_s - self.body.begin_s)

    def arrivals(self, tau_s: float) -> Floats:
        """What a lag lets through: the same, (n, width), of ∫ exp((t − row's end)/τ) dt / τ."""
        head, until = self.head, self.ends_s[1:]
        risen = np.exp((self.body.begin_s - np.repeat(until, self.number)) / tau_s)
        at_end = np.append(risen, 1.0)[1:]  # a piece ends where the next begins,
        at_end[self.last] = 1.0  # or its row
        first = np.exp((head.end_s - until) / tau_s) - np.exp((head.begin_s - until) / tau_s)
        return self._sums(first, at_end - risen)

    def _sums(self, of_head: Floats, of_body: Floats) -> Floats:
        head, rows = self.head, np.arange(len(self.number))
        size = len(rows) * self.width
        flat = np.bincount(self.columns, of_body, size)
        flat += np.bincount(self.counts, of_body * self.body.per_s, size)
        table = np.asarray(flat, np.float64).reshape(-1, self.width)
        table[rows, head.column] += of_head
        table[rows, head.count] += of_head * head.per_s
        return table


def cross(ends_s: Floats, slices: SpanSlices, width: int) -> Crossing:
    """Cut slices at the borders of the n rows between successive ``ends_s`` (n + 1,).

    The slices must cover all of them.
    """
    low = int(np.searchsorted(slices.end_s, ends_s[0], "right"))
    high = int(np.searchsorted(slices.begin_s, ends_s[-1], "left"))
    until = ends_s[1:]
    begun = np.searchsorted(slices.begin_s[low + 1 : high], ends_s)
    number = np.diff(begun)
    some = number > 0
    last = begun[1:][some] - 1
    running = slices.take(low + begun[:-1])
    head = replace(running, begin_s=ends_s[:-1], end_s=np.minimum(running.end_s, until))
    body = slices.take(slice(low + 1, high))
    end_s = np.append(body.begin_s, until[-1])[1:]
    end_s[last] = until[some]
    body = replace(body, end_s=end_s)
    first = np.repeat(np.arange(len(until)) * width, number)
    return Crossing(
        ends_s, width, head, body, number, last, first + body.column, first + body.count
    )


class RowBuilder:
    """Builds rows for one assumed lag, clock offset and disturbance of the instants."""

    def __init__(self, tau_s: float, offset_s: float, disturb: float = 0.0):
        """``disturb``: instants are moved by this many standard errors times a common noise."""
        self.tau_s, self.offset_s, self.disturb = tau_s, offset_s, disturb
        self.last_s: float | None = None  # the last instant that was used
        self._level = np.empty(0)  # H at that instant

    def rows(self, instants_s: Floats, slices: SpanSlices, width: int) -> tuple[Floats, Floats]:
        """Build the rows of the intervals that end at ``instants_s`` (n,); slices must cover them.

        The first interval begins at the last instant of the call before; the very first
        instant ends none, so there is one row less.

        Returns:
            (seconds per column as the meter shows them, as they were), (n, width) each.
        """
        if self.last_s is None:
            self.begin(float(instants_s[0]), slices, width)
            instants_s = instants_s[1:]
        if len(self._level) < width:
            self._level = np.pad(self._level, (0, width - len(self._level)))
        ends = np.maximum.accumulate(np.concatenate([[self.last_s], instants_s]))
        if len(ends) < 2:
            return np.empty((0, width)), np.empty((0, width))
        return self._of(cross(ends, slices, width))

    @classmethod
    def all_at_once(
        cls, taus_s: Sequence[float], instants_s: Floats, slices: SpanSlices, width: int
    ) -> Iterator[tuple[Floats, Floats]]:
        """What :meth:`rows` of a new builder gives, for each of several lags."""
        crossing = cross(np.maximum.accumulate(instants_s), slices, width)
        for tau_s in taus_s:
            builder = cls(tau_s, 0.0)
            builder.begin(float(instants_s[0]), slices, width)
            yield builder._of(crossing)

    def begin(self, first_s: float, slices: SpanSlices, width: int) -> None:
        """Begin the rows at this instant; the meter has settled in the slice that runs then."""
        self.last_s = first_s
        at = min(int(np.searchsorted(slices.end_s, first_s, "right")), len(slices) - 1)
        self._level = np.zeros(width)
        self._level[slices.column[at]] = 1.0
        self._level[slices.count[at]] = slices.per_s[at]

    def _of(self, crossing: Crossing) -> tuple[Floats, Floats]:
        ends = crossing.ends_s
        time = crossing.time()
        self.last_s = float(ends[-1])
        if self.tau_s <= 0:
            return time, time
        added = crossing.arrivals(self.tau_s)
        faded = fading(-np.diff(ends) / self.tau_s, added, self._level)
        level = np.concatenate([self._level[None], faded])
        self._level = level[-1]
        return time - self.tau_s * np.diff(level, axis=0), time
