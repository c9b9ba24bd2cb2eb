"""What the final report says, summed up while the run goes on: the report of a week in seconds.

Fed with all that is recorded; :meth:`SummaryStage.save` seals it at the end of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...analysis.device_energy import knots_of
from ...analysis.device_owner import owner
from ...analysis.summary_file import LoggedSums, NodeSummary, write_summary
from ...attribution.meter.summary import MeterSummarizer, MeterSummary, SampleStatistics
from ...model import RESTARTED, Gap, Provenance, Reading, Sample, Source
from ...ring.layout import PHASE_OF_CODE, Code, Record
from ...store.members import Member
from ...timeline.allocator_levels import AllocatorByPhase
from ...timeline.phase_levels import GaugeByPhase, PhaseLevels, is_memory
from ...timeline.phase_totals import PhaseCounter, PhaseTotals
from ...timeline.span_table import Rows, SpanTable
from ..drain import RingDrain
from ..fault_guard import FaultGuard, guarded
from .timelines import Settled, Timelines


class SummaryStage:
    """Sums up all sources and ranks of this node.

    A failure inside ends the summary, never the recording: the report then reads samples and edges.
    """

    def __init__(self, run: Path, begin_ns: int):
        self._run, self._begin_ns = run, begin_ns
        self._sources: dict[str, Source] = {}
        self._meters: dict[str, MeterSummarizer | SampleStatistics] = {}
        self._reads: dict[str, list[Sample]] = {}
        self._owners: dict[str, int] = {}
        self._spans: dict[int, list[Settled]] = {}
        self._host: dict[int, PhaseCounter] = {}
        self._device: dict[int, PhaseCounter] = {}
        self._allocators: dict[int, AllocatorByPhase] = {}
        self._gauges: dict[str, GaugeByPhase] = {}  # of memory, by source
        self._used: set[int] = set()  # ranks whose first spans were used
        self.guard = FaultGuard("the report will read all samples")

    def open(self, sources: Iterable[Source]) -> None:
        """New sources."""
        for source in sources:
            if source.id in self._sources:
                continue
            self._sources[source.id] = source
            knots = knots_of(source)
            self._meters[source.id] = (
                MeterSummarizer(knots, self._begin_ns) if knots else SampleStatistics()
            )
            self._reads[source.id] = []
            if is_memory(source):
                self._gauges[source.id] = GaugeByPhase()

    @guarded
    def edges(self, rank: int, rows: Rows, names: Mapping[int, str]) -> None:
        """Records of a rank's main ring, and the names of its codes."""
        if rank in self._allocators or (rows["kind"] == Record.MEMORY).any():  # else no GPU is used
            self._allocators.setdefault(rank, AllocatorByPhase()).feed(rows, names)

    @guarded
    def readings(self, readings: Iterable[Reading]) -> None:
        """What the sensors read, in order."""
        for reading in readings:
            if isinstance(reading, Gap):
                meter = self._meters.get(reading.what)
                if isinstance(meter, MeterSummarizer) and reading.reason == RESTARTED:
                    meter.restart(reading.end_ns)
            elif reading.source in self._reads:
                self._reads[reading.source].append(reading)

    @guarded
    def spans(self, settled: Mapping[int, Settled]) -> None:
        """Spans of each rank that follow those before."""
        for rank, spans in settled.items():
            self._spans.setdefault(rank, []).append(spans)
            self._host.setdefault(rank, PhaseCounter()).take(spans.host)
            if spans.device is not None:
                self._device.setdefault(rank, PhaseCounter()).take(spans.device)

    def on_device(self) -> dict[int, dict[int, float]]:
        """Seconds per phase code of every rank that has a device's own clock."""
        return {rank: counting.seconds() for rank, counting in self._device.items()}

    @guarded
    def advance(self, members: Sequence[Member]) -> None:
        """Use what has come."""
        self._advance(members)

    def _advance(self, members: Sequence[Member]) -> None:
        sources = list(self._sources.values())
        ranks = {m.seat for m in members if m.role == "rank"}
        taken, self._spans = self._spans, {}
        tables: dict[tuple[int, bool], SpanTable] = {}  # by rank, and whether on the device's clock
        for id_, source in self._sources.items():
            meter = self._meters[id_]
            self._feed(source, meter)
            if id_ in self._gauges:
                self._advance_gauge(source, owner(source, sources, members, ranks), taken)
            if not isinstance(meter, MeterSummarizer):
                continue
            rank = owner(source, sources, members, ranks)
            before = self._owners.get(id_)
            if rank is not None and before is None:
                self._owners[id_] = rank
            substitute = not source.in_total and source.provenance is Provenance.MEASURED
            late = before is None and rank in self._used
            if substitute or late or rank != self._owners.get(id_):
                meter.give_up()  # a substitute meter, or not this rank's for the whole run
            elif rank in taken:
                clock = rank, source.is_accelerator
                if clock not in tables:
                    table = SpanTable.concat([spans.of(source) for spans in taken[rank]])
                    tables[clock] = table.take(table.code != Code.OUTSIDE)
                table = tables[clock]
                meter.feed_spans(table.begin_ns, table.end_ns, table.code.astype(np.int64))
            meter.advance()
        self._used |= taken.keys()
        for rank, allocator in self._allocators.items():
            allocator.advance(_on_host(taken.get(rank, ())))

    def _advance_gauge(
        self, source: Source, rank: int | None, taken: Mapping[int, Sequence[Settled]]
    ) -> None:
        """Hold what a gauge of memory showed against its rank's phases, on the host's clock."""
        before = self._owners.setdefault(source.id, rank) if rank is not None else None
        if rank is None or rank != before:
            if source.id in self._owners:  # not this rank's for the whole run
                del self._gauges[source.id]
            else:
                self._gauges[source.id].advance(SpanTable.empty())
        else:
            self._gauges[source.id].advance(_on_host(taken.get(rank, ())))

    def memory(self) -> list[PhaseLevels]:
        """The levels of memory by phase so far, of all ranks."""
        levels = [row for rank, each in self._allocators.items() for row in each.levels(rank)]
        for id_, gauge in self._gauges.items():
            if id_ in self._owners:
                levels.append(gauge.levels(self._owners[id_], self._sources[id_]))
        return [row for row in levels if row.phases]

    def _feed(self, source: Source, meter: MeterSummarizer | SampleStatistics) -> None:
        reads = self._reads[source.id]
        if not reads:
            return
        self._reads[source.id] = []
        value = np.array([read.value for read in reads], np.float64) * source.scale
        if source.id in self._gauges:
            time_ns = np.array([read.time_ns for read in reads], np.int64)
            self._gauges[source.id].feed(time_ns, value)
        if isinstance(meter, MeterSummarizer):
            time_ns = np.array([read.time_ns for read in reads], np.int64)
            meter.feed_reads(time_ns, value, np.array([read.span_ns for read in reads], np.int64))
        else:
            meter.feed(value)

    @guarded
    def save(
        self,
        end_ns: int,
        drains: Collection[RingDrain],
        members: Sequence[Member],
        timelines: Timelines,
        *,
        followed: Sequence[str],
    ) -> None:
        """Seal it, if every rank could be followed. Raises OSError.

        Args:
            end_ns: of the run.
            timelines: where the spans came from.
            followed: the sources that the estimator followed from begin to end.
        """
        if timelines.lost:
            return
        self._advance(members)
        meters: dict[str, MeterSummary] = {
            id_: meter.finish(end_ns) if isinstance(meter, MeterSummarizer) else meter.finish()
            for id_, meter in self._meters.items()
        }
        ranks = [drain for drain in drains if drain.rank >= 0]
        rings = {drain.rank: timelines.rings(drain.rank) for drain in ranks}
        mains = [drain for drain in ranks if drain.name == rings[drain.rank][0]]

        def phase_totals(counted: Mapping[int, PhaseCounter]) -> list[PhaseTotals]:
            return [
                counted[drain.rank].totals(
                    drain.rank,
                    PHASE_OF_CODE | drain.names,
                    drain.steps,
                    drain.durations.times(),
                    drain.optimizers(),
                )
                for drain in mains
                if drain.rank in counted
            ]

        values: dict[int, dict[str, LoggedSums]] = {}
        for drain in drains:
            values.setdefault(drain.rank, {}).update(drain.values())
        write_summary(
            self._run,
            NodeSummary(
                meters,
                self._owners,
                followed,
                phase_totals(self._host),
                phase_totals(self._device),
                rings,
                values,
                timelines.reductions(),
                self.memory(),
            ),
        )


def _on_host(settled: Iterable[Settled]) -> SpanTable:
    return SpanTable.concat([spans.host for spans in settled])
