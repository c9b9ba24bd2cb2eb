"""Spans of phases, and the slices that they are cut into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import ArrayTable, Floats, Ints
from .columns import UNATTRIBUTED, Columns


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

    def successions(self) -> list[tuple[int, int, int]]:
        """(code, code before it, how often) of each change of phase, ascending."""
        codes = self.codes()
        if len(codes) < 2:
            return []
        place, number = _places(codes, self.code), len(codes)
        changed = place[1:] != place[:-1]
        pairs = place[1:][changed] * number + place[:-1][changed]
        counts = np.bincount(pairs, minlength=number * number)
        return [
            (codes[pair // number], codes[pair % number], int(counts[pair]))
            for pair in np.flatnonzero(counts).tolist()
        ]

    def reaching_from(self, before: Spans) -> Spans:
        """These, with an UNATTRIBUTED span in front if they leave a hole after ``before``."""
        end_s = before.end_s[-1:]
        if not len(end_s) or not len(self) or self.begin_s[0] <= end_s[0]:
            return self
        return Spans(end_s, self.begin_s[:1], np.array([UNATTRIBUTED])).append(self)

    def reaching_back(self, begin_s: float) -> Spans:
        """These, with an UNATTRIBUTED span in front if they begin after ``begin_s``."""
        first_s = float(self.begin_s[0]) if len(self) else begin_s
        if first_s <= begin_s:
            return self
        return Spans(np.array([begin_s]), np.array([first_s]), np.array([UNATTRIBUTED])).append(
            self
        )

    def reaching_on(self, end_s: float) -> Spans:
        """These, with an UNATTRIBUTED span behind if they end before ``end_s``."""
        last_s = float(self.end_s[-1]) if len(self) else end_s - 1.0
        if last_s >= end_s:
            return self
        return self.append(Spans(np.array([last_s]), np.array([end_s]), np.array([UNATTRIBUTED])))

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
    border: Ints  # column of the phase's border where the phase begins here, else -1
    per_s: Floats  # instances per second while it runs: 1 / the instance's duration


def cut(spans: Spans, columns: Columns) -> SpanSlices:
    """Cut each span into as many equal slices as its phase has columns."""
    codes = spans.codes()
    place = _places(codes, spans.code)
    number = np.array([columns.slices_of[c] for c in codes])[place]
    first = np.array([columns.first[c] for c in codes])[place]
    count = np.array([columns.count_of[c] for c in codes])[place]
    entered = np.concatenate([[False], spans.code[1:] != spans.code[:-1]])
    border = np.where(entered, count + 1, -1)
    duration = spans.end_s - spans.begin_s
    with np.errstate(divide="ignore"):
        per_s = np.where(duration > 0, 1.0 / duration, 0.0)
    if number.max() == 1:
        return SpanSlices(spans.begin_s, spans.end_s, first, count, border, per_s)
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
        np.where(at == 0, np.repeat(border, number), -1),
        np.repeat(per_s, number),
    )


def _places(codes: list[int], code: Ints) -> Ints:
    """The place of each code (n,) among the ascending ``codes``, (n,)."""
    table = np.zeros(1 + codes[-1] - codes[0], np.int64)
    table[np.array(codes) - codes[0]] = np.arange(len(codes))
    return np.asarray(table[code - codes[0]])
