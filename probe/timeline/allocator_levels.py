"""What torch's GPU allocator held in each phase, from a rank's edges.

An edge carries the bytes that were allocated at it, so a phase's mean is taken between its two
edges. What happened between them shows in the allocator's own running peak: where that rose, the
peak was in the phase that ends at the next edge, and is exact. Where it did not rise, the phase's
peak lies between the levels at its edges and the running peak.

The allocator works in the order of the host's calls, so the host's clock counts, not the device's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..attribution.arrays import ArrayTable, Floats, Times
from ..ring.layout import AllocatorFigure, Code, Record
from .phase_levels import MOST_WAITING, LevelSums, PhaseLevels, StepFloor
from .span_table import Rows, SpanTable

_UNKNOWN = -1.0


@dataclass(frozen=True, slots=True)
class _Edges(ArrayTable):
    """Marks, and what the allocator held at them; −1 where it was not read."""

    time_ns: Times
    allocated: Floats
    reserved: Floats


_NO_EDGES = _Edges(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


@dataclass(slots=True)
class AllocatorByPhase:
    """One rank's allocator, fed with the records of its main ring and its spans as they come."""

    _edges: list[_Edges] = field(default_factory=list)
    _peaks: list[tuple[int, float]] = field(default_factory=list)  # time of the edge after, bytes
    _open_peak: float = _UNKNOWN  # seen, and no edge since
    _reserved: float = _UNKNOWN
    _running_peak: float = _UNKNOWN
    _sums: dict[tuple[int, str], LevelSums] = field(default_factory=dict)
    _highest: dict[int, float] = field(default_factory=dict)  # by phase, where it was seen exactly
    _floor: StepFloor = field(default_factory=StepFloor)

    def feed(self, rows: Rows, names: Mapping[int, str]) -> None:
        """Take records in the order in which they were written.

        Args:
            names: of the ring's codes.
        """
        kind = rows["kind"]
        rows = rows[(kind == Record.MARK) | (kind == Record.MEMORY)]
        if not len(rows):
            return
        payload = rows["payload"].astype(np.int64)
        marks = rows["kind"] == Record.MARK
        reserved = np.full(len(rows), np.nan)
        place_of_next = np.searchsorted(np.flatnonzero(marks), np.arange(len(rows)))
        times = rows["time_ns"][marks].astype(np.int64)
        for code in np.unique(rows["code"][~marks]).tolist():
            here = np.flatnonzero(~marks & (rows["code"] == code))
            name = names.get(code, "")
            if name in (AllocatorFigure.PEAK, AllocatorFigure.PEAK_IN_PHASE):
                self._running_peak = max(self._running_peak, float(payload[here].max()))
            if name == AllocatorFigure.RESERVED_IN_PHASE:
                reserved[here] = payload[here]
            if name == AllocatorFigure.PEAK_IN_PHASE:
                for place in here.tolist():
                    mark = int(place_of_next[place])
                    if mark < len(times):
                        self._peaks.append((int(times[mark]), float(payload[place])))
                    else:
                        self._open_peak = max(self._open_peak, float(payload[place]))
        if len(times) and self._open_peak >= 0:
            self._peaks.append((int(times[0]), self._open_peak))
            self._open_peak = _UNKNOWN
        reserved = self._carried(reserved)[marks]
        allocated = payload[marks].astype(np.float64)
        reserved = np.where(allocated >= 0, reserved, _UNKNOWN)
        self._edges.append(_Edges(times, allocated, reserved))

    def _carried(self, reserved: Floats) -> Floats:
        """The last value that was read, at every record."""
        is_read = ~np.isnan(reserved)
        last = np.maximum.accumulate(np.where(is_read, np.arange(len(reserved)), -1))
        carried = np.where(last >= 0, reserved[np.maximum(last, 0)], self._reserved)
        self._reserved = float(carried[-1])
        return np.asarray(carried)

    def advance(self, table: SpanTable) -> None:
        """Take spans on the host's clock that follow those before; use the edges that they cover.

        Edges are known before the spans that they make.
        """
        edges = _Edges.concat(self._edges or [_NO_EDGES])
        self._edges = [edges.take(slice(-MOST_WAITING, None))]
        self._peaks = self._peaks[-MOST_WAITING:]
        if not len(table) or not len(edges):
            return
        self._between_edges(table, edges)
        self._exact_peaks(table)
        done = int(np.searchsorted(edges.time_ns, table.end_ns[-1]))
        self._edges = [edges.take(slice(max(0, done - 1), None))]

    def _between_edges(self, table: SpanTable, edges: _Edges) -> None:
        first = np.searchsorted(edges.time_ns, table.begin_ns, "right") - 1
        last = np.searchsorted(edges.time_ns, table.end_ns, "left")
        read_at_both = (first >= 0) & (last < len(edges)) & (table.code != Code.OUTSIDE)
        first, last = np.maximum(first, 0), np.minimum(last, len(edges) - 1)
        read_at_both &= edges.time_ns[first] == table.begin_ns
        read_at_both &= edges.time_ns[last] == table.end_ns
        read_at_both &= (edges.allocated[first] >= 0) & (edges.allocated[last] >= 0)
        table, first, last = table.take(read_at_both), first[read_at_both], last[read_at_both]
        seconds = (table.end_ns - table.begin_ns).astype(np.float64)
        for quantity, level in (
            (AllocatorFigure.ALLOCATED, edges.allocated),
            (AllocatorFigure.RESERVED, edges.reserved),
        ):
            seen = (level[first] >= 0) & (level[last] >= 0)
            mean, highest = (level[first] + level[last]) / 2, np.maximum(level[first], level[last])
            for code in np.unique(table.code[seen]).tolist():
                here = seen & (table.code == code)
                sums = self._sums.setdefault((code, quantity), LevelSums())
                sums.add(seconds[here], mean[here])
                sums.highest = max(sums.highest, float(highest[here].max()))
                sums.visits += int(np.count_nonzero(here))
                sums.added += float((level[last] - level[first])[here].sum())
        self._floor.feed(table.step, edges.allocated[first])

    def _exact_peaks(self, table: SpanTable) -> None:
        waiting = []
        for time_ns, peak in self._peaks:
            place = int(np.searchsorted(table.end_ns, time_ns))
            if place == len(table):
                waiting.append((time_ns, peak))
            elif table.end_ns[place] == time_ns:
                code = int(table.code[place])
                self._highest[code] = max(peak, self._highest.get(code, 0.0))
        self._peaks = waiting

    def levels(self, rank: int) -> list[PhaseLevels]:
        """Allocated and reserved bytes; none if the allocator was never read at edges."""
        rows = []
        for quantity in (AllocatorFigure.ALLOCATED, AllocatorFigure.RESERVED):
            phases = {}
            for (code, name), sums in sorted(self._sums.items()):
                if name != quantity:
                    continue
                at_most = None
                if quantity == AllocatorFigure.ALLOCATED:
                    sums.highest = max(sums.highest, self._highest.get(code, 0.0))
                    if self._running_peak > sums.highest:
                        at_most = self._running_peak
                phases[code] = sums.level(at_most)
            if phases:
                floor = self._floor if quantity == AllocatorFigure.ALLOCATED else StepFloor()
                rows.append(PhaseLevels(rank, f"rank{rank}", quantity, "", phases, floor.floor()))
        return rows
