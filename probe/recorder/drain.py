"""Rings into segments: every record once, holes as gaps, the tail moved only after the write."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clock import Clock
from ..model import Gap
from ..ring.layout import MAIN_CAPACITY, Code, Record
from ..ring.reader import SLOT_DTYPE, Edges, RingReader
from ..store import files, layout
from ..store.new_files import make_folder_here
from ..store.segments import EDGES, LEDGER, SegmentWriter, write_batch
from ..timeline.optimizer_steps import OptimizerCounter, OptimizerSteps
from ..timeline.span_table import Rows, SpanTable
from ..timeline.spans import SpanDecoder
from ..timeline.step_times import StepDurations

if TYPE_CHECKING:
    from ..analysis.summary_file import LoggedSums

BATCH = 1 << 12  # records per write: small enough that slots return to the writer soon

_NO_ROWS: Rows = np.empty(0, SLOT_DTYPE)
BACKLOG = 1 / 16  # of the ring; then it is drained at once

OnBatch = Callable[[int, str, Rows, SpanTable | None, Mapping[int, str]], None]
"""Given every batch: rank, ring, records, the spans of a main ring's marks, names by code."""


def warm_up() -> None:
    """Pay the first write's 100 ms and its buffers now, before edges wait for it."""
    rows = np.zeros(BATCH, SLOT_DTYPE)
    rows["kind"], rows["code"] = Record.MARK, np.arange(BATCH) % 9 + 1
    rows["time_ns"] = rows["sequence"] = np.arange(BATCH)
    with pa.BufferOutputStream() as sink:
        write_batch(sink, {name: rows[name] for name in EDGES.names}, EDGES)
    spans = SpanDecoder().feed(rows, holes=())
    spans.ledger()


@dataclasses.dataclass(slots=True)
class _LoggedMetric:
    """What `run.log` recorded of one metric so far."""

    count: int = 0
    last: float = math.nan
    sum: float = 0.0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        self.count += len(values)
        self.last = float(values[-1])
        self.sum += float(values.sum())

    def row(self) -> LoggedSums:
        """For JSON, which has no NaN: null instead."""
        last, total = (x if math.isfinite(x) else None for x in (self.last, self.sum))
        return {"count": self.count, "last": last, "sum": total}


class RingDrain:
    """Drains one ring of one rank into ``rank-…/edges-<ring>`` and its ledger."""

    def __init__(
        self,
        run: Path,
        rank: int,
        path: Path,
        *,
        epoch: int,
        clock: Clock,
        main: bool,
        on_batch: OnBatch,
        guest: str | None = None,
    ):
        """Open the ring.

        Args:
            main: it is the ring of the training thread.
            guest: this host, if another host created the run.

        Raises:
            StoreError: it is not a ring, or cannot be read.
        """
        self.path, self.rank = path, rank
        self.name = path.stem.rpartition("-")[2]
        self.ended: tuple[int, int, int] | None = None  # (time_ns, EndCode, exit code)
        self.edges = 0
        self.lost = 0
        self._steps_by_kind: dict[Record, int] = {}
        self.durations = StepDurations()
        self._optimizers = OptimizerCounter()
        self.last_ns = 0
        self.phase: tuple[int, int] | None = None  # (time_ns, code) of the last mark
        self._last_sequence = 0
        self._open_marks: list[int] = []  # codes of the last two marks since a step closed
        self._logged: dict[int, _LoggedMetric] = {}
        self._on_batch = on_batch
        self._reader = RingReader(path)
        self.sealed = False  # the trainer was let go
        self.small = self._reader.capacity < MAIN_CAPACITY
        self._folder = layout.rank_dir(run, rank, guest)
        self._edges = SegmentWriter(self._folder, f"edges-{self.name}-{epoch}", EDGES, clock)
        self._ledger = SegmentWriter(self._folder, f"ledger-{self.name}-{epoch}", LEDGER, clock)
        self._decoder = SpanDecoder() if main else None
        self._pending: Edges | None = None  # read from the ring, not on disk yet
        self.names: dict[int, str] = {}  # of phases and metrics by code, as written last
        if self._reader.position:
            self._recall(self._reader.taken())

    def _recall(self, rows: Rows) -> None:
        """Go on where a recorder that died stopped; what it drained may say how it all ended."""
        self.edges = self._reader.position
        if not len(rows):
            return
        self.last_ns, self._last_sequence = int(rows["time_ns"][-1]), int(rows["sequence"][-1])
        self.lost = max(0, self._last_sequence - self.edges)
        self._follow_marks(rows)
        self._follow_steps(rows)
        self._follow_end(rows)

    def backlogged(self) -> bool:
        """True if the ring fills faster than once a second empties it."""
        return self._reader.backlogged(BACKLOG)

    def beat(self, now_ns: int, *, epoch: int, pid: int) -> None:
        """Tell the trainer that its recorder lives."""
        self._reader.beat(now_ns, epoch=epoch, pid=pid)

    def hold(self, *, refused: bool) -> None:
        """Tell the trainer whether the disk refuses what is recorded."""
        self._reader.hold(refused=refused)

    def values(self) -> dict[str, LoggedSums]:
        """Metrics that `run.log` recorded: name → count, last, sum."""
        return {
            self.names.get(code, f"value-{code}"): metric.row()
            for code, metric in sorted(self._logged.items())
        }

    @property
    def steps(self) -> int:
        """Steps of its thread, and of others that this one says."""
        return sum(self._steps_by_kind.values())

    @property
    def pending(self) -> bool:
        """True while records were read that the disk has not taken."""
        return self._pending is not None

    @property
    def closed(self) -> bool:
        """True once the writer said that nothing follows."""
        return self._reader.closed

    def drain(self) -> list[Gap]:
        """Move what is in the ring to disk.

        Raises OSError if the disk refuses; the batch is kept and tried again, and
        the ring fills up and counts what it drops.
        """
        gaps: list[Gap] = []
        while True:
            if self._pending is None:
                self._pending = self._reader.read(BATCH)
            batch = self._pending
            if not len(batch.rows):
                self._pending = None
                return gaps
            self._write_names()
            rows = batch.rows
            self._edges.write({name: rows[name] for name in EDGES.names})
            self._reader.acknowledge()
            self._pending = None
            gaps += [self._lose(begin or end, end, count) for begin, end, count in batch.holes]
            self._note(batch)
            if len(rows) < BATCH:
                return gaps  # what came since can wait: a batch costs the same however small

    def finish(self) -> list[Gap]:
        """Drain, account for drops after the last record, end a step left open. Raises OSError."""
        gaps = self.drain()
        dropped = self._reader.dropped_unseen
        if dropped:
            gaps.append(self._lose(self.last_ns, self.last_ns, dropped))
        self._close_step()
        if self._decoder is not None:
            self._hand_over(_NO_ROWS, self._decoder.finish())
        return gaps

    def _close_step(self) -> None:
        """Close the step of a process that died after its optimizer had stepped.

        What follows a step says that it is done, and nothing follows here. Raises OSError.
        """
        if self.ended is not None or self._open_marks[:1] != [Code.OPTIMIZER]:
            return
        row = np.zeros(1, SLOT_DTYPE)
        row["time_ns"], row["kind"], row["code"] = self.last_ns, Record.STEP, 1
        row["payload"] = self._steps_by_kind.get(Record.STEP, 0)
        row["sequence"] = (self._last_sequence + 1) & 0xFFFF_FFFF
        self._edges.write({name: row[name] for name in EDGES.names})
        self._note(Edges(row))

    def _lose(self, begin_ns: int, end_ns: int, count: int) -> Gap:
        self.lost += count
        return Gap(f"edges of rank {self.rank}", begin_ns, end_ns, "the ring was full", count)

    def sync(self) -> list[Path]:
        """Sync to disk and rotate; returns closed segments, to be sealed. Raises OSError."""
        closed = []
        for writer in (self._edges, self._ledger):
            writer.sync()
            closed += writer.rotate_if_due()
        return closed

    def close(self) -> list[Path]:
        """Close the open segments, to be sealed. Raises OSError."""
        return [*self._edges.close(), *self._ledger.close()]

    def seal(self, *, complete: bool, remove: bool) -> None:
        """Let the trainer go; with ``remove`` the file is not needed any more."""
        self.sealed = True
        self._reader.seal(complete=complete)
        self._reader.close()
        if remove:
            self.path.unlink(missing_ok=True)

    def optimizers(self) -> OptimizerSteps:
        """How often each of several optimizers has stepped."""
        return self._optimizers.result(self.names)

    def _note(self, batch: Edges) -> None:
        rows = batch.rows
        self.edges += len(rows)
        self.last_ns = int(rows["time_ns"][-1])
        self._last_sequence = int(rows["sequence"][-1])
        kinds = rows["kind"]
        self._follow_marks(rows)
        closed = rows["time_ns"][kinds == Record.STEP]
        self._follow_steps(rows)
        self.durations.add(closed.astype(np.int64))
        self._optimizers.take(rows)
        logged = rows[kinds == Record.VALUE]
        for code in np.unique(logged["code"]).tolist():
            values = logged["payload"][logged["code"] == code].copy().view(np.float64)
            self._logged.setdefault(code, _LoggedMetric()).add(values)
        self._follow_end(rows)
        spans = None
        if self._decoder is not None:
            spans = self._decoder.feed(rows, holes=batch.holes)
        self._hand_over(rows, spans)

    def _follow_marks(self, rows: Rows) -> None:
        marked = np.flatnonzero(rows["kind"] == Record.MARK)
        if len(marked):
            self.phase = int(rows["time_ns"][marked[-1]]), int(rows["code"][marked[-1]])
        closed = np.flatnonzero(rows["kind"] == Record.STEP)
        if len(closed):
            self._open_marks = []
            rows = rows[closed[-1] + 1 :]
        marks = rows["code"][rows["kind"] == Record.MARK][-2:].tolist()
        self._open_marks = [*self._open_marks, *marks][-2:]

    def _follow_steps(self, rows: Rows) -> None:
        """Each record says how many there were; what an earlier recorder drained counts, too."""
        for kind, more in ((Record.STEP, 1), (Record.STEP_ELSEWHERE, 0)):
            counts = rows["payload"][rows["kind"] == kind]
            if len(counts):
                self._steps_by_kind[kind] = int(counts[-1]) + more

    def _follow_end(self, rows: Rows) -> None:
        for row in rows[rows["kind"] == Record.END]:
            self.ended = (int(row["time_ns"]), int(row["code"]), int(row["payload"]))

    def _hand_over(self, rows: Rows, spans: SpanTable | None) -> None:
        self._on_batch(self.rank, self.name, rows, spans, self.names)
        if spans is not None and len(spans):
            self._ledger.write(spans.ledger())

    def _write_names(self) -> None:
        names = self._reader.names()
        if names != self.names:
            make_folder_here(self._folder)
            files.write_json(
                self._folder / f"names-{self.name}.json",
                {str(code): name for code, name in names.items()},
                checked=True,
            )
            self.names = names
