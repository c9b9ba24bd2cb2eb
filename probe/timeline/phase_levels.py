"""Levels by phase: what a gauge of memory showed while a rank was in each of its phases.

A level is true at the instant at which it was read, so nothing has to be inferred: a read belongs
to the phase that it falls into. What is kept does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from ..attribution.arrays import ArrayTable, Floats, Ints, Times
from ..model import DeviceKind, Source
from ..ring.layout import Code
from .span_table import SpanTable

_MOST_BLOCKS = 64  # of steps; then two become one
MOST_WAITING = 200_000  # reads without spans, or spans without reads


@dataclass(frozen=True, slots=True)
class Level:
    """What was seen of a level in one phase: ``mean`` and ``highest`` of ``weight`` reads.

    ``at_most``: what it may have been between two reads, where that is known; ``added``: by how
    much a visit of the phase raised it, on average, where it was read at both ends of visits.
    """

    weight: float
    mean: float
    highest: float
    at_most: float | None = None
    added: float | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """The lowest level in each block of steps; arrays (blocks,)."""

    step: Ints  # first of a block
    lowest: Floats


class LevelFields(TypedDict):
    """The levels of one gauge as they are stored."""

    rank: int
    device: str
    quantity: str
    source: str
    phases: list[tuple[int, float, float, float, float | None, float | None]]  # code, then a Level
    floor: list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class PhaseLevels:
    """The levels of one gauge, by phase code, and their floor over the steps.

    ``quantity`` is allocated, reserved, resident or used. ``source`` is the meter's id and
    ``device`` its device; of torch's allocator they are empty and ``rank0``.
    """

    rank: int
    device: str
    quantity: str
    source: str
    phases: Mapping[int, Level]
    floor: Floor

    def as_fields(self) -> LevelFields:
        """As plain data."""
        return {
            "rank": self.rank,
            "device": self.device,
            "quantity": self.quantity,
            "source": self.source,
            "phases": [
                (code, level.weight, level.mean, level.highest, level.at_most, level.added)
                for code, level in self.phases.items()
            ],
            "floor": list(zip(self.floor.step.tolist(), self.floor.lowest.tolist(), strict=True)),
        }

    @classmethod
    def of(cls, stored: LevelFields) -> PhaseLevels:
        """From :meth:`as_fields`."""
        steps, lowest = zip(*stored["floor"], strict=True) if stored["floor"] else ((), ())
        return cls(
            stored["rank"],
            stored["device"],
            stored["quantity"],
            stored["source"],
            {
                code: Level(weight, mean, highest, at_most, *added)  # older runs have no `added`
                for code, weight, mean, highest, at_most, *added in stored["phases"]
            },
            Floor(np.array(steps, np.int64), np.array(lowest, np.float64)),
        )


class StepFloor:
    """The lowest level of each block of steps, in bounded memory. Feed steps in order."""

    def __init__(self) -> None:
        self._width = 1
        self._lowest: dict[int, float] = {}  # by block

    def feed(self, step: Ints, level: Floats) -> None:
        """Take reads: the step that each falls into, its level, arrays (n,)."""
        if not len(step):
            return
        block = step // self._width
        firsts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
        for number, lowest in zip(
            block[firsts].tolist(), np.minimum.reduceat(level, firsts).tolist(), strict=True
        ):
            self._lowest[number] = min(lowest, self._lowest.get(number, np.inf))
        while len(self._lowest) > _MOST_BLOCKS:
            self._width *= 2
            before, self._lowest = self._lowest, {}
            for number, lowest in before.items():
                half = number // 2
                self._lowest[half] = min(lowest, self._lowest.get(half, np.inf))

    def floor(self) -> Floor:
        """The blocks so far. The last one is not complete, and is left out if there are others."""
        blocks = sorted(self._lowest)
        blocks = blocks[:-1] or blocks
        return Floor(
            np.array(blocks, np.int64) * self._width,
            np.array([self._lowest[block] for block in blocks]),
        )


@dataclass(slots=True)
class LevelSums:
    """Sums over weighted reads of one phase, and over visits that were read at both ends."""

    weight: float = 0.0
    total: float = 0.0
    highest: float = -np.inf
    visits: int = 0
    added: float = 0.0  # by all of these visits

    def add(self, weight: Floats, level: Floats) -> None:
        """Take further reads (n,)."""
        self.weight += float(weight.sum())
        self.total += float(weight @ level)
        self.highest = max(self.highest, float(level.max(initial=-np.inf)))

    def level(self, at_most: float | None = None) -> Level:
        """What the sums come to."""
        mean = self.total / max(self.weight, 1e-300)
        added = self.added / self.visits if self.visits else None
        return Level(self.weight, mean, self.highest, at_most, added)


@dataclass(frozen=True, slots=True)
class _Reads(ArrayTable):
    time_ns: Times
    level: Floats


_NO_READS = _Reads(np.zeros(0, np.int64), np.zeros(0))


@dataclass(slots=True)
class GaugeByPhase:
    """Reads of one gauge, held against the spans of one rank; both are fed as they come."""

    sums: dict[int, LevelSums] = field(default_factory=dict)
    floor: StepFloor = field(default_factory=StepFloor)
    _reads: list[_Reads] = field(default_factory=list)
    _spans: SpanTable = field(default_factory=SpanTable.empty)

    def feed(self, time_ns: Times, level: Floats) -> None:
        """Take reads (n,), in order."""
        self._reads.append(_Reads(time_ns, level))

    def advance(self, table: SpanTable) -> None:
        """Take spans that follow those before, and use the reads that they cover by now."""
        reads = _Reads.concat(self._reads or [_NO_READS])
        table = SpanTable.concat([self._spans, table])
        if len(reads) and len(table):
            ready = int(np.searchsorted(reads.time_ns, table.end_ns[-1]))
            self._use(reads.take(slice(ready)), table)
            table = table.take(table.end_ns > reads.time_ns[-1])  # no read comes before the last
            reads = reads.take(slice(ready, None))
        self._reads = [reads.take(slice(-MOST_WAITING, None))]
        self._spans = table.take(slice(-MOST_WAITING, None))

    def _use(self, reads: _Reads, table: SpanTable) -> None:
        place = np.maximum(np.searchsorted(table.begin_ns, reads.time_ns, "right") - 1, 0)
        inside = (table.begin_ns[place] <= reads.time_ns) & (reads.time_ns < table.end_ns[place])
        inside &= table.code[place] != Code.OUTSIDE
        place, level = place[inside], reads.level[inside]
        code = table.code[place]
        for phase in np.unique(code).tolist():
            chosen = level[code == phase]
            self.sums.setdefault(phase, LevelSums()).add(np.ones(len(chosen)), chosen)
        self.floor.feed(table.step[place], level)

    def levels(self, rank: int, source: Source) -> PhaseLevels:
        """All that was seen of a source of a rank."""
        phases = {code: sums.level() for code, sums in sorted(self.sums.items())}
        return PhaseLevels(
            rank, source.device, memory_quantity(source), source.id, phases, self.floor.floor()
        )


def is_memory(source: Source) -> bool:
    """Whether a source is a level of memory that one rank's phases explain."""
    own = source.is_accelerator or source.device_kind is DeviceKind.RANK
    return source.quantity == "memory_used" and source.attributable and own


def memory_quantity(source: Source) -> str:
    """What the report calls it: resident (a process) or used (a device)."""
    return "resident" if source.device_kind is DeviceKind.RANK else "used"
