"""The analysis of a run from all its samples and edges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..attribution.meter.summary import MeterSummary, SampleStatistics
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import TimeShares, split
from ..errors import UsageError
from ..model import RESTARTED, Gap, Source
from ..report.model import LoggedValue
from ..ring.layout import Record
from ..store.reader import RunReader, Series
from ..store.segment_reader import segment_files
from ..timeline.allocator_levels import AllocatorByPhase
from ..timeline.ddp_reductions import DdpReductions, ReductionSums
from ..timeline.device_times import on_device
from ..timeline.phase_levels import GaugeByPhase, PhaseLevels, is_memory
from ..timeline.phase_totals import PhaseTotals
from ..timeline.rank_timeline import Timeline, timeline
from ..timeline.span_table import Rows
from ..timeline.spans import decode
from ..units import NS_PER_S
from . import device_energy
from .base import RunAnalysis, bounds_of
from .device_owner import owner
from .statistics_source import load_statistics, replay

# Reading more samples than this to sum them up would not be constant memory.
MOST_BYTES = 16 << 20


class AnalysisFromSamples(RunAnalysis):
    """The analysis of a run, or of a part of it.

    Args:
        recompute: do not use the statistics that the recorder left either.
        part_s: only what lies between these seconds of the run.

    Raises:
        UsageError: that is no part of the run.
        StoreError: it cannot be read.
    """

    is_from_raw_data = True

    def __init__(
        self,
        reader: RunReader,
        *,
        recompute: bool = False,
        part_s: tuple[float, float] | None = None,
    ):
        whole_run = bounds_of(reader)
        run = whole_run if part_s is None else part_of(whole_run, *part_s)
        self._recompute = recompute
        self.series = reader.series()
        gaps = reader.gaps()
        super().__init__(
            reader,
            run,
            [
                device_energy.MeterReadings(series.source, self._summary(series, gaps))
                for series in self.series
            ],
        )
        self._read_timelines()

    def _read_timelines(self, *, cut: bool = False) -> None:
        self._host: dict[int, Timeline] = {}
        self.on_device: dict[int, Timeline] = {}
        for rank in self.reader.ranks():
            for timelines, device in ((self._host, False), (self.on_device, True)):
                spans = timeline(self.reader, rank, device=device)
                if spans is not None:
                    whole = self.run == self.whole and not cut
                    timelines[rank] = spans if whole else spans.part(*self.run)

    def _summary(self, series: Series, gaps: Sequence[Gap]) -> MeterSummary:
        with_curve = self.faults.attempt(
            series.source, "its energy is not known", lambda: summary(series, gaps)
        )
        return with_curve or SampleStatistics().finish()

    @cached_property
    def phase_totals(self) -> Sequence[PhaseTotals]:
        """Of every rank that recorded edges, on the host's clock."""
        return [spans.totals() for spans in self._host.values()]

    def totals_on_device(self) -> Sequence[PhaseTotals]:
        """Of every rank, on its device's clock where that was recorded."""
        return [self.on_device.get(rank, spans).totals() for rank, spans in self._host.items()]

    def part(self, begin_ns: int, end_ns: int) -> AnalysisFromSamples:
        """The analysis of what lies between two instants of this one; nothing is read again."""
        part = copy(self)
        part.__dict__.pop("phase_totals", None)  # of the whole run
        part.run = begin_ns, end_ns
        part._host, part.on_device = (
            {rank: spans.part(begin_ns, end_ns) for rank, spans in timelines.items()}
            for timelines in (self._host, self.on_device)
        )
        return part

    def values(self) -> dict[str, LoggedValue]:
        """What the ranks logged: name → count, last, sum."""
        logged = self.reader.logged()
        return {
            name: LoggedValue(
                count=len(values),
                last=float(values[-1]),
                sum=total if math.isfinite(total := float(values.sum())) else None,
            )
            for name, (_, values) in logged.items()
            if len(values) and math.isfinite(values[-1])
        }

    def reductions(self) -> Mapping[int, ReductionSums]:
        """By rank, what reducing gradients cost it."""
        by_rank = {}
        for rank in self.reader.ranks():
            reductions = DdpReductions()
            for name, rows in self.reader.rings(rank):
                if name.startswith("main") and (rows["kind"] == Record.SYNC).any():
                    moved = on_device(rows)
                    clocked = self._between(rows if moved is None else moved)
                    reductions.feed(clocked, decode(clocked))
            by_rank[rank] = reductions.state()
        return by_rank

    def memory(self) -> Sequence[PhaseLevels]:
        """What the ranks held of memory in each phase."""
        levels = []
        sources = [series.source for series in self.series]
        for series in self.series:
            if not is_memory(series.source):
                continue
            rank = owner(series.source, sources, self.reader.members, list(self._host))
            if rank is not None:
                gauge = GaugeByPhase()
                gauge.feed(series.time_ns, series.value)
                gauge.advance(self._host[rank].table())
                levels.append(gauge.levels(rank, series.source))
        for rank, spans in self._host.items():
            levels += self._allocator(rank, spans)
        return [row for row in levels if row.phases]

    def _allocator(self, rank: int, spans: Timeline) -> list[PhaseLevels]:
        allocator = AllocatorByPhase()
        for name, rows in self.reader.rings(rank):
            if name.startswith("main") and (rows["kind"] == Record.MEMORY).any():
                allocator.feed(rows, self.reader.names(rank, name))
        allocator.advance(spans.table())
        return allocator.levels(rank)

    def _between(self, rows: Rows) -> Rows:
        if self.run == self.whole:
            return rows
        time_ns = rows["time_ns"].astype(np.int64)
        return rows[(time_ns >= self.run[0]) & (time_ns <= self.run[1])]

    def _timeline(self, source: Source, rank: int) -> Timeline:
        if source.is_accelerator and rank in self.on_device:
            return self.on_device[rank]
        return self._host[rank]

    def _totals_on(self, source: Source, rank: int) -> PhaseTotals:
        return self._timeline(source, rank).totals()

    def _shares(self, device: device_energy.DeviceEnergy, rank: int) -> TimeShares:
        assert device.curve is not None
        spans = self._timeline(device.source, rank)
        return split(
            device.curve,
            spans.begin_ns,
            spans.end_ns,
            spans.code,
            self.run,
            np.array([device.highest_w]),
        )

    def _statistics(self, source: Source, rank: int) -> Statistics | None:
        """Statistics of a source.

        Those that the recorder left consist of whole blocks. Of a part they hold the blocks
        inside it: 1/64 to 1/32 of the run is as close as they come to its ends.
        """
        statistics = None
        if not self._recompute:
            on_device = source.is_accelerator and rank in self.on_device
            statistics = load_statistics(
                self.reader.nodes(),
                source,
                rank,
                self._rings[rank],
                on_device=on_device,
                damaged=self.reader.made_again.add,
            )
        if statistics is None:
            restarts = [
                gap.end_ns for gap in self.gaps if gap.what == source.id and gap.reason == RESTARTED
            ]
            series = next(
                candidate for candidate in self.series if candidate.source.id == source.id
            )
            # Whether its joules count, as the analysis has it, decides how it is attributed.
            series = replace(series, source=source)
            return replay(series, self._timeline(source, rank), self.run, self.whole[0], restarts)
        if self.run == self.whole:
            return statistics
        return statistics.between(*((at - self.whole[0]) / NS_PER_S for at in self.run))

    @cached_property
    def _rings(self) -> dict[int, list[str]]:
        """Names of each rank's rings; to list them is to read them, so once for all meters."""
        return {rank: [name for name, _ in self.reader.rings(rank)] for rank in self.reader.ranks()}


def sample_bytes(reader: RunReader) -> int:
    """Bytes of all samples on disk."""
    return sum(
        path.stat().st_size for node in reader.nodes() for path in segment_files(node, "samples")
    )


def summary(series: Series, gaps: Sequence[Gap]) -> MeterSummary:
    """The summary of all samples of a source."""
    levels = SampleStatistics()
    levels.feed(series.value)
    statistics = levels.finish()
    knots = device_energy.knots_of(series.source)
    if knots is None:
        return statistics
    for gap in gaps:
        if gap.what == series.source.id and gap.reason == RESTARTED:
            knots.restart(gap.end_ns)
    knots.feed(series.time_ns, series.value, series.span_ns)
    return statistics.with_curve(knots.curve())


def part_of(run: tuple[int, int], from_s: float, to_s: float) -> tuple[int, int]:
    """Begin and end in ns of a part of a run. Raises UsageError if it is none."""
    begin, end = (run[0] + round(s * NS_PER_S) for s in (from_s, min(to_s, 1e9)))
    if not run[0] <= begin < min(end, run[1]):
        raise UsageError(
            f"{from_s:g} s to {to_s:g} s is no part of a run of "
            f"{(run[1] - run[0]) / NS_PER_S:.1f} s"
        )
    return begin, min(end, run[1])
