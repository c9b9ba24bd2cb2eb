"""Edges to spans: the phases of a run as contiguous intervals. Pure numpy, streaming.

Some marks are provisional and only the future tells what they were (:mod:`provisional`).
The decoder holds spans back until that is known, but never more than ``PENDING`` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..attribution.arrays import ArrayTable, Bools, Ints
from ..ring.layout import Code, Record
from .overlay import overlay
from .provisional import FAR, HOLE, gives_nothing, loads, resolve, tells_evaluation
from .span_table import Rows, SpanTable

Hole = tuple[int, int, int]  # time before, time after, records missing

PENDING = 65_536  # rows: a step that never closes must not grow memory


@dataclass(frozen=True, slots=True)
class _Points(ArrayTable):
    """Rows that begin, split or end a span."""

    time: Ints
    kind: Ints
    code: Ints
    payload: Ints


class SpanDecoder:
    """Decodes one main ring: ``feed`` each batch, then ``finish``.

    The spans that ``feed`` and ``finish`` return follow each other without a break, so
    Σ spans = last edge − first edge. Where records are missing the span is OUTSIDE:
    nothing may be attributed to a hole.
    """

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self._held = _Points(none, none, none, none)
        self._code = int(Code.OUTSIDE)  # raw code that runs into the first held point
        self._steady = int(Code.OUTSIDE)  # the same, collectives and user phases left out
        self._step = 0
        self._micro = 0
        self._forward = False  # a forward was seen since the last backward
        self._started = False  # start-up has begun
        self._evaluates = False  # the last forward or backward was a forward of an evaluation
        self._sequence: int | None = None
        self._row_ns = 0  # time of the last row fed
        self._point_ns = 0  # and of the last one that is a point

    def feed(self, rows: Rows, holes: Sequence[Hole] | None = None) -> SpanTable:
        """Spans that are decided once these rows are known.

        Args:
            rows: records of the main ring in the order they were written.
            holes: where records are missing; None: where ``sequence`` jumps.
        """
        jumps = self._jumps(rows) if holes is None else None
        points = _select(rows, jumps, holes or (), self._row_ns, self._point_ns)
        if len(rows):
            self._row_ns = int(rows["time_ns"][-1])
        if not len(points):
            return SpanTable.empty()
        self._point_ns = int(points.time[-1])
        return self._decode(_Points.concat([self._held, points]), last=False)

    def finish(self) -> SpanTable:
        """The spans still held back; what no backward followed is other."""
        return self._decode(self._held, last=True)

    def _jumps(self, rows: Rows) -> Ints:
        sequence = rows["sequence"].astype(np.int64)
        if not len(sequence):
            return np.empty(0, np.int64)
        first = sequence[0] - 1 if self._sequence is None else self._sequence
        self._sequence = int(sequence[-1])
        return np.flatnonzero(np.diff(sequence, prepend=first) % (1 << 32) > 1)

    def _decode(self, points: _Points, *, last: bool) -> SpanTable:
        n = len(points)
        if not n:
            return SpanTable.empty()
        raw = _filled(points, self._code)
        final, inferred, undecided = resolve(points.kind, raw, self._forward, self._evaluates, last)
        # The last point has no end yet; it is held back until it has.
        ready = n - 1
        if len(undecided) and n - undecided[0] <= PENDING:
            ready = min(ready, int(undecided[0]))
        ready = max(ready, 0)
        table = self._spans(points, raw, final, inferred, ready)
        self._advance(points, raw, final, ready)
        self._held = points.take(slice(n if last else ready, None))
        return table

    def _spans(
        self, points: _Points, raw: Ints, final: Ints, inferred: Bools, ready: int
    ) -> SpanTable:
        n = ready
        _, entry = _entries(points.kind, raw, self._steady)
        backward = (entry & (raw == Code.BACKWARD)).astype(np.int64)
        closes = points.kind == Record.STEP
        total = self._micro + np.cumsum(backward)
        micro = total - np.maximum.accumulate(np.where(closes, total, 0))
        step = np.maximum.accumulate(np.where(closes, points.payload + 1, self._step))
        # A tail that became forward continues that forward; a tail or pre that became
        # other begins anew.
        entered = entry & ~((raw == Code.TAIL) & (final == Code.FORWARD))
        # Loading for an evaluation is part of it; what gave no batch is no loading of one.
        entered &= ~(loads(raw) & ((final != Code.DATA) | gives_nothing(raw)))
        entered &= (raw != Code.RESUMED) & (raw != Code.SAVING_ON)
        entered &= ~((raw == Code.STARTUP) & self._resumes(raw))
        table = SpanTable(
            points.time[:n],
            points.time[1 : n + 1],
            final[:n],
            step[:n],
            micro[:n],
            inferred[:n],
            entered[:n],
        )
        return table.take(table.end_ns > table.begin_ns)

    def _resumes(self, raw: Ints) -> Bools:
        """Where start-up has begun before."""
        began = np.cumsum(raw == Code.STARTUP) > 1
        return began | self._started

    def _advance(self, points: _Points, raw: Ints, final: Ints, ready: int) -> None:
        """Remember what the first held point needs to know of those before it."""
        if not ready:
            return
        kind, code = points.kind[:ready], raw[:ready]
        self._started = self._started or bool((code == Code.STARTUP).any())
        steady, entry = _entries(kind, code, self._steady)
        closes = np.flatnonzero(kind == Record.STEP)
        begin = int(closes[-1]) if len(closes) else 0
        backwards = int(np.count_nonzero(entry[begin:] & (code[begin:] == Code.BACKWARD)))
        if len(closes):
            self._step = max(self._step, int(points.payload[:ready][begin]) + 1)
            self._micro = 0
        self._micro += backwards
        forwards = np.flatnonzero((code == Code.FORWARD) & (kind == Record.MARK))
        ends = np.flatnonzero((code == Code.BACKWARD) & (kind == Record.MARK))
        if len(ends):
            self._forward = bool(len(forwards)) and int(forwards[-1]) > int(ends[-1])
        else:
            self._forward = self._forward or bool(len(forwards))
        decided = np.flatnonzero((kind == Record.MARK) & tells_evaluation(code))
        if len(decided):
            self._evaluates = bool(final[decided[-1]] == Code.EVAL)
        self._code, self._steady = int(code[-1]), int(steady[-1])


def _select(
    rows: Rows, jumps: Ints | None, holes: Sequence[Hole], row_ns: int, point_ns: int
) -> _Points:
    kind = rows["kind"].astype(np.int64)
    keep = (kind == Record.MARK) | (kind == Record.STEP) | (kind == Record.END)
    chosen = np.flatnonzero(keep)
    points = _Points(
        rows["time_ns"][chosen].astype(np.int64),
        kind[chosen],
        rows["code"][chosen].astype(np.int64),
        rows["payload"][chosen].astype(np.int64),
    )
    if jumps is not None and len(jumps):
        at = np.searchsorted(chosen, jumps)  # the hole lies before this point
        times = rows["time_ns"][np.maximum(jumps - 1, 0)].astype(np.int64)
        before = np.where(jumps > 0, times, row_ns)
    elif holes:
        at = np.searchsorted(points.time, [after for _, after, _ in holes])
        before = np.array([earlier for earlier, _, _ in holes], np.int64)
    else:
        return points
    # Rows that carry an older time (device times, values) must not pull a hole back.
    begin = np.maximum(before, np.concatenate([[point_ns], points.time])[at])
    limit = np.concatenate([points.time, [FAR]])[at]
    begin = np.where(begin > 0, np.minimum(begin, limit), limit)
    inside = begin < FAR  # else nothing lies before the hole, and nothing behind it
    at, begin = at[inside], begin[inside]
    return _Points(
        np.insert(points.time, at, begin),
        np.insert(points.kind, at, HOLE),
        np.insert(points.code, at, int(Code.OUTSIDE)),
        np.insert(points.payload, at, 0),
    )


def _filled(points: _Points, before: int) -> Ints:
    """Code that holds from each point on; a step's end continues the one before."""
    index = np.arange(len(points.time))
    own = np.maximum.accumulate(np.where(points.kind == Record.STEP, -1, index))
    code = np.where(points.kind == Record.END, int(Code.OUTSIDE), points.code)
    return np.where(own < 0, before, code[np.maximum(own, 0)]).astype(np.int64)


def _entries(kind: Ints, raw: Ints, before: int) -> tuple[Ints, Bools]:
    """(the code that runs under collectives and user phases, places that enter a phase)."""
    index = np.arange(len(raw))
    raw = np.where(raw == Code.FIRST_LOADING, Code.LOADING, raw)
    passing = (raw == Code.COMMUNICATION) | (raw == Code.RECOMPUTE)
    passing |= (raw == Code.CHECKPOINT) | (raw == Code.SAVING_ON)
    passing |= (raw == Code.COMPILE) | (raw >= Code.USER)
    own = np.maximum.accumulate(np.where(passing, -1, index))
    steady = np.where(own < 0, before, raw[np.maximum(own, 0)])
    under = np.concatenate([[before], steady[:-1]])
    return steady.astype(np.int64), (kind == Record.MARK) & (passing | (raw != under))


def decode(
    rows: Rows, others: Sequence[Rows] = (), holes: Sequence[Hole] | None = None
) -> SpanTable:
    """All spans of one main ring, those of other threads laid over them."""
    decoder = SpanDecoder()
    table = SpanTable.concat([decoder.feed(rows, holes), decoder.finish()])
    for secondary in others:
        table = overlay(table, secondary)
    return table
