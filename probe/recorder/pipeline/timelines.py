"""The spans of each rank as the report will see them, as they come.

A drained ring says at once what its own marks come to; that is enough for what is shown live. The
report lays other threads' marks over them and, on an accelerator, moves them to the times when the
device reached the edges. Both need what comes a little later: spans are handed out once they are
settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...model import Source
from ...ring.layout import TRAINING_THREAD, Code
from ...ring.reader import SLOT_DTYPE
from ...timeline.ddp_reductions import DdpReductions, ReductionSums
from ...timeline.device_times import DeviceTimeShift
from ...timeline.overlay import overlay
from ...timeline.span_table import Rows, SpanTable
from ...timeline.spans import SpanDecoder

SETTLED_NS = 2_000_000_000  # a thread's ring is found and drained by then
MOST_SPANS = 150_000  # that wait
_CROWDED = 1 / 3  # of them
MOST_MARKS = 600_000  # of another thread, that wait for the rank's own

_NO_ROWS: Rows = np.empty(0, SLOT_DTYPE)


@dataclass(frozen=True, slots=True)
class Settled:
    """Spans of one rank that follow those before; ``device``: None where its clock is not known."""

    host: SpanTable
    device: SpanTable | None

    def of(self, source: Source) -> SpanTable:
        """On the clock on which a source's energy is attributed."""
        return self.device if source.is_accelerator and self.device is not None else self.host


@dataclass(slots=True)
class _Track:
    """Spans of one clock that wait for other threads' marks."""

    waiting: list[SpanTable] = field(default_factory=list)
    number: int = 0
    handed_ns: int = 0  # out up to here

    def add(self, table: SpanTable) -> None:
        if len(table):
            self.waiting.append(table)
            self.number += len(table)

    def take(self, until_ns: int | None, others: Mapping[str, Rows]) -> SpanTable:
        table, self.waiting, self.number = SpanTable.concat(self.waiting), [], 0
        ready = len(table)
        if until_ns is not None and ready:
            ready = int(np.searchsorted(table.end_ns, until_ns, "right"))
            if others:  # not amid what lies over a backward
                outside = np.flatnonzero(table.code[:ready] != Code.BACKWARD)
                ready = int(outside[-1]) + 1 if len(outside) else 0
            self.add(table.take(np.arange(ready, len(table))))
            table = table.take(np.arange(ready))
        if len(table):
            self.handed_ns = int(table.end_ns[-1])
        for _, rows in sorted(others.items()):
            table = overlay(table, rows)
        return table


class _RankTimeline:
    """One rank with one main ring."""

    def __init__(self, ring: str):
        self.main = ring
        self.others: dict[str, Rows] = {}
        self.on_device: bool | None = None  # settled when spans are first handed out
        self._moving, self._decoder = DeviceTimeShift(), SpanDecoder()
        self._host, self._device = _Track(), _Track()
        self._reduced, self._reduced_on_device = DdpReductions(), DdpReductions()

    @property
    def waiting(self) -> int:
        return max(self._host.number, self._device.number)

    @property
    def as_settled(self) -> bool:
        """Whether all that came says what the begin said about the device's clock."""
        return (self.on_device or False) == self._moving.is_known

    @property
    def reductions(self) -> DdpReductions:
        """On the device's clock where that is known."""
        return self._reduced_on_device if self.on_device else self._reduced

    def add(self, rows: Rows, table: SpanTable) -> None:
        self._host.add(table)
        if not self.on_device:
            self._reduced.feed(rows, table)
        if self.on_device is False:
            self._moving.count(rows)
        else:
            self._move(self._moving.feed(rows))

    def _move(self, moved: Rows) -> None:
        table = self._decoder.feed(moved)
        self._reduced_on_device.feed(moved, table)
        self._device.add(table)

    def take(self, until_ns: int | None) -> Settled:
        if self.on_device is None and self._moving.marks:
            self.on_device = self._moving.is_known
        if until_ns is None and self.on_device:
            self._move(self._moving.finish())
            rest = self._decoder.finish()
            self._reduced_on_device.feed(_NO_ROWS, rest)
            self._device.add(rest)
        host = self._host.take(until_ns, self.others)
        device = self._device.take(until_ns, self.others) if self.on_device else None
        if self.on_device is False:
            self._device = _Track()
            self._moving.drop()
        self._forget()
        return Settled(host, device)

    def _forget(self) -> None:
        """Of other threads' marks; the last one before is still in force."""
        clocks = (self._host, self._device) if self.on_device else (self._host,)
        until_ns = min(track.handed_ns for track in clocks)
        for ring, rows in self.others.items():
            keep = int(np.searchsorted(rows["time_ns"].astype(np.int64), until_ns)) - 1
            self.others[ring] = rows[max(0, keep) :]


class Timelines:
    """Of all ranks of this node."""

    def __init__(self) -> None:
        self._ranks: dict[int, _RankTimeline] = {}
        self._lost: dict[int, str] = {}

    def add(self, rank: int, ring: str, rows: Rows, table: SpanTable | None) -> None:
        """What was drained of a ring; ``table``: what a main ring's marks come to, else None."""
        if ring.startswith(TRAINING_THREAD):
            self._lose(rank, "")  # the report sums up what its threads did
        if rank in self._lost or (table is None and rank not in self._ranks):
            return
        try:
            self._add(rank, ring, rows, table)
        except Exception as error:  # of this rank only; its records are on disk
            self._lose(rank, _broken(rank, error))

    def _add(self, rank: int, ring: str, rows: Rows, table: SpanTable | None) -> None:
        if table is None:
            others = self._ranks[rank].others
            others[ring] = np.concatenate([others[ring], rows]) if ring in others else rows
            if len(others[ring]) > MOST_MARKS:
                self._lose(
                    rank,
                    f"another thread of rank {rank} marks faster than its phases "
                    "pass: the report attributes them, not the recorder",
                )
            return
        timeline = self._ranks.setdefault(rank, _RankTimeline(ring))
        if ring != timeline.main:
            self._lose(rank, "")  # it was started again: the report joins what both did
            return
        timeline.add(rows, table)
        if timeline.waiting > MOST_SPANS:
            self._lose(
                rank,
                f"rank {rank} had more than {MOST_SPANS} phases at a time: the "
                "report attributes them, not the recorder",
            )

    def take(self, now_ns: int | None) -> dict[int, Settled]:
        """What is settled by now, or with None, at the end, all that is left."""
        until_ns = None if now_ns is None else now_ns - SETTLED_NS
        settled = {}
        for rank, timeline in list(self._ranks.items()):
            try:
                settled[rank] = timeline.take(until_ns)
            except Exception as error:
                self._lose(rank, _broken(rank, error))
        return settled

    @property
    def crowded(self) -> bool:
        """Whether so many spans wait that they should be taken soon."""
        return any(rank.waiting > _CROWDED * MOST_SPANS for rank in self._ranks.values())

    def _lose(self, rank: int, why: str) -> None:
        self._ranks.pop(rank, None)
        self._lost[rank] = why

    @property
    def lost(self) -> set[int]:
        """Ranks whose spans cannot be followed."""
        return {
            *self._lost,
            *(
                rank
                for rank, timeline in self._ranks.items()
                if timeline.on_device is not None and not timeline.as_settled
            ),
        }

    @property
    def warnings(self) -> list[str]:
        """One clear line each."""
        return [why for why in self._lost.values() if why]

    def rings(self, rank: int) -> list[str]:
        """Names of the rings that were followed, sorted."""
        timeline = self._ranks.get(rank)
        return sorted([timeline.main, *timeline.others]) if timeline is not None else []

    def reductions(self) -> dict[int, ReductionSums]:
        """By rank, what reducing gradients cost it, as :meth:`Reductions.state`."""
        return {rank: timeline.reductions.state() for rank, timeline in self._ranks.items()}

    def on_device(self, rank: int) -> bool:
        """Whether the rank's spans are known on a device's clock."""
        timeline = self._ranks.get(rank)
        return timeline is not None and bool(timeline.on_device)


def _broken(rank: int, error: Exception) -> str:
    return (
        f"rank {rank}: {type(error).__name__}: {error}: the report attributes its phases, not "
        "the recorder"
    )
