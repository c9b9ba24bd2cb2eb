"""All stages between what is read and what is kept, fed in one order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ...clock import Clock
from ...model import Gap, Reading, Source
from ...store.layout import node_dir, summary_path
from ...store.members import Member
from ...timeline.span_table import Rows, SpanTable
from ..drain import RingDrain
from ..fault_guard import DiskGuard
from ..live.page import LivePageStage
from .attribution import AttributionStage
from .storage import StorageStage
from .summary import SummaryStage
from .timelines import Timelines

HOLE_NS = 1_000_000_000  # a recorder takes as long to start, and sensors are read once a second


class Pipeline:
    """Sources and readings go to every stage; spans go on once their timelines have settled."""

    def __init__(
        self,
        run: Path,
        epoch: int,
        begin_ns: int,
        clock: Clock,
        disk: DiskGuard,
        beat: Callable[[], None] = lambda: None,
    ):
        """Make the stages.

        Args:
            begin_ns: when the run began.
            beat: called now and then during long work: the recorder lives.
        """
        self._run, self._clock, self._disk = run, clock, disk
        self._first, self._begin_ns = epoch == 1, begin_ns
        self.storage = StorageStage(run, epoch, clock)
        self._timelines = Timelines()
        self._attribution = AttributionStage(run, begin_ns, clock, beat)
        self._summary = SummaryStage(run, begin_ns)
        self._live = LivePageStage(run, begin_ns, clock)
        self._stages = (self.storage, self._attribution, self._summary, self._live)

    @property
    def crowded(self) -> bool:
        """Whether so many spans wait that they should be attributed soon."""
        return self._timelines.crowded

    def warnings(self) -> list[str]:
        """One clear line each."""
        return [*self._attribution.warnings, *self._timelines.warnings]

    def feed(self, sources: Collection[Source], readings: Collection[Reading]) -> None:
        """New sources, then what the sensors read, in order."""
        for stage in self._stages if sources else ():
            with self._disk():
                stage.open(sources)
        for stage in self._stages:
            stage.readings(readings)

    def edges(
        self, rank: int, ring: str, rows: Rows, table: SpanTable | None, names: Mapping[int, str]
    ) -> None:
        """A drained batch.

        Args:
            table: the spans of a main ring's marks, else None.
            names: of the ring's codes.
        """
        self._timelines.add(rank, ring, rows, table)
        if table is not None:
            self._summary.edges(rank, rows, names)
            self._live.spans(rank, table)

    def lost(self, gaps: Iterable[Gap]) -> None:
        """Edges or samples that are missing."""
        self.storage.readings(gaps)

    def advance(self, members: Sequence[Member]) -> None:
        """Attribute and sum up what has settled."""
        self._settle(self._clock.now_ns())
        self._attribution.advance(members)
        with self._disk():
            self._summary.advance(members)

    def search_on(self) -> None:
        """A piece of what is too dear to be done at once."""
        self._attribution.search_on()

    def _settle(self, now_ns: int | None) -> None:
        settled = self._timelines.take(now_ns)
        self._attribution.spans(settled, self._timelines.lost)
        self._summary.spans(settled)

    def estimate(self) -> None:
        """Solve what was attributed, for the live page."""
        self._live.estimates(
            self._attribution.statistics(), self._clock.now_ns(), self._summary.on_device()
        )

    def publish(
        self,
        drains: Iterable[RingDrain],
        names: Mapping[int, Mapping[int, str]],
        *,
        final: bool = False,
    ) -> None:
        """Replace the live page."""
        with self._disk():
            self._live.publish(
                self._clock.now_ns(), drains, names, self._summary.memory(), final=final
            )

    def save(self, members: Sequence[Member]) -> None:
        """Save the statistics, should this recorder be killed."""
        with self._disk():
            self._attribution.save(members, self._timelines)

    def finish(self, members: Sequence[Member], drains: Collection[RingDrain], end_ns: int) -> None:
        """Seal what a report needs; nothing more follows."""
        self._settle(None)
        with self._disk():
            self._attribution.save(members, self._timelines, end_ns)
        if not self._first:
            return  # a recorder before this one recorded something that is not in the summary
        with self._disk():
            self._summary.save(
                end_ns, drains, members, self._timelines, followed=self._attribution.followed()
            )

    def forget_summary(self) -> None:
        """Delete what an earlier recorder summed up: the run goes on. Raises OSError."""
        summary_path(self._run).unlink(missing_ok=True)

    def note_hole(self) -> None:
        """What was not sampled before this recorder took over is a Gap.

        There need be none: the one before may have been slow, not dead, or had not begun yet.
        """
        from ...store.reader import last_sample_ns

        now_ns = self._clock.now_ns()
        before_ns = last_sample_ns(node_dir(self._run)) or self._begin_ns
        if now_ns - before_ns >= HOLE_NS:
            self.lost([Gap("recorder", before_ns, now_ns, "the recorder was restarted")])
