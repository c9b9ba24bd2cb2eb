"""The estimator inside the recorder: fed as data come, its statistics sealed with the run.

One accumulator per meter whose device belongs to exactly one rank of this node. What it
holds is constant in size, so the report of a week is solved in seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...analysis.device_owner import ranks_of
from ...attribution.accumulator import Accumulator
from ...attribution.meter_kinds import accumulator_of, is_attributed
from ...attribution.regression.serialization import from_arrays, to_arrays
from ...attribution.regression.statistics import Statistics
from ...attribution.spans import Spans
from ...clock import Clock
from ...model import RESTARTED, Gap, Reading, Source
from ...ring.layout import Code
from ...store import files
from ...store.layout import statistics_path
from ...store.members import Member
from ...timeline.span_table import SpanTable
from ...units import NS_PER_S
from ..cpu_share import CpuShare
from ..fault_guard import FaultGuard
from .timelines import Settled, Timelines

_MOST_CPU = 0.08  # of a core, for all meters together
_JUDGED_S = 10.0
_PIECES = 1  # of a search at once: some 50 ms
_SEARCH_AT_ONCE_S = 2.0  # of CPU time for searches without a pause: one or two meters
_SEARCH_CPU = 0.03  # of a core, for all searches after that
_PRESSING = 0.5  # of the room for waiting updates: a search goes on without a pause
_MOST_READS = 200_000  # that wait for a rank: a launcher that never trains


@dataclass(slots=True)
class _AttributedMeter:
    """What is read of one source, and whose spans it is held against, once that is known."""

    source: Source
    rank: int | None
    accumulator: Accumulator
    reads: list[tuple[int, int, float]] = field(default_factory=list)


class AttributionStage:
    """Feeds accumulators; :meth:`save` seals what they hold."""

    def __init__(
        self, run: Path, begin_ns: int, clock: Clock, beat: Callable[[], None] = lambda: None
    ):
        """Begin without meters.

        Args:
            begin_ns: when the run began; energy before that is not the run's.
            beat: called between two meters. Many of them take seconds on a busy machine, and
                a recorder that is silent for so long is replaced.
        """
        self._run, self._origin_ns, self._clock = run, begin_ns, clock
        self._beat = beat
        self._sources: dict[str, Source] = {}
        self._meters: dict[str, _AttributedMeter] = {}
        self._used: set[int] = set()  # ranks whose first spans are used up
        self._spans: dict[int, list[Settled]] = {}
        self._cpu_s, self._since_s = 0.0, clock.monotonic_s()
        self._costly = False  # at the last check
        self._search_cpu = CpuShare(clock, _SEARCH_CPU, free_s=_SEARCH_AT_ONCE_S)
        self._thinned: list[str] = []
        self._faults: list[str] = []
        self._guard = FaultGuard("energy is attributed by the report only", self._meters.clear)

    @property
    def warnings(self) -> list[str]:
        """One clear line each."""
        return [*self._thinned, *self._faults]

    def open(self, sources: Iterable[Source]) -> None:
        """Begin with those of new sources that are attributed to phases."""
        for source in sources:
            if source.id in self._sources:
                continue
            self._sources[source.id] = source
            if is_attributed(source):
                self._meters[source.id] = _AttributedMeter(source, None, self._accumulator(source))

    def _assign(self, members: Iterable[Member]) -> None:
        """Assign each meter to the one rank that uses its device, once that rank has joined.

        Meters of devices that several ranks use are dropped.
        """
        members = list(members)
        for name, meter in list(self._meters.items()):
            ranks = ranks_of(meter.source, list(self._sources.values()), members)
            late = meter.rank is None and bool(ranks & self._used)
            if len(ranks) > 1 or (meter.rank is not None and ranks != {meter.rank}) or late:
                del self._meters[name]
            elif ranks:
                meter.rank = next(iter(ranks))
            elif len(meter.reads) > _MOST_READS:
                del self._meters[name]

    def _accumulator(self, source: Source) -> Accumulator:
        accumulator = accumulator_of(source)
        arrays = files.read_arrays(statistics_path(self._run, source.id))
        if arrays is not None:  # of the recorder before this one
            with contextlib.suppress(ValueError):  # else the report goes back to raw data
                accumulator.resume(from_arrays(arrays)[0])
        return accumulator

    def readings(self, readings: Iterable[Reading]) -> None:
        """What the sensors said, in order."""
        for reading in readings:
            if isinstance(reading, Gap):
                meter = self._meters.get(reading.what)
                if meter is not None and reading.reason == RESTARTED:
                    with self._only(meter):
                        self._feed(meter)
                        meter.accumulator.interrupt()
            elif (meter := self._meters.get(reading.source)) is not None:
                meter.reads.append((reading.time_ns, reading.span_ns, reading.value))

    def spans(self, settled: Mapping[int, Settled], lost: Collection[int] = ()) -> None:
        """Spans of each rank that follow those before; those of ``lost`` ranks cannot be had."""
        for rank, spans in settled.items():
            self._spans.setdefault(rank, []).append(spans)
        for name, meter in list(self._meters.items()):
            if meter.rank in lost:
                del self._meters[name]
        self._used |= set(lost)

    def statistics(self) -> Iterator[tuple[Source, int, Statistics]]:
        """(source, rank, what is known) of every meter that has begun."""
        for meter in self._meters.values():
            self._beat()
            statistics = meter.accumulator.statistics
            if meter.rank is not None and statistics.lanes:
                yield meter.source, meter.rank, statistics

    def followed(self) -> list[str]:
        """Sources whose statistics hold all that was read, now or once they say anything."""
        return [
            name
            for name, meter in self._meters.items()
            if meter.rank is not None and not meter.accumulator.resumed
        ]

    def advance(self, members: Iterable[Member]) -> None:
        """Use what has come. Trouble ends the attribution here, never the recording."""
        began = time.thread_time()
        with self._guard():
            self._assign(members)
            self._advance()
        self._watch_cost(time.thread_time() - began)

    def search_on(self) -> None:
        """Go on with the search for one meter's response: it costs a second, so in pieces.

        With many meters the pieces are far apart: a machine full of them costs no more than one.
        """
        meters = [m for m in self._meters.values() if m.rank is not None]
        meters = [m for m in meters if m.accumulator.must_search]
        meters.sort(key=lambda m: (m.accumulator.searching, m.accumulator.waiting), reverse=True)
        pressing = any(m.accumulator.waiting > _PRESSING for m in meters)
        if not meters or not (self._search_cpu.due() or pressing):
            return
        with self._search_cpu, self._guard():
            for meter in meters:
                with self._only(meter):
                    meter.accumulator.advance(pieces=_PIECES)
                    if meter.accumulator.searching:
                        break

    def _watch_cost(self, cpu_s: float) -> None:
        """Use fewer updates after two costly checks in a row: one may be the search for lags."""
        self._cpu_s += cpu_s
        wall_s = self._clock.monotonic_s() - self._since_s
        if wall_s < _JUDGED_S:
            return
        before, self._costly = self._costly, self._cpu_s > _MOST_CPU * wall_s
        if before and self._costly and self._meters:
            every = max(meter.accumulator.thin() for meter in self._meters.values())
            self._thinned = [
                f"attribution used {self._cpu_s / wall_s:.0%} of a core: it now uses "
                f"one update of the meters in {every}"
            ]
        self._cpu_s, self._since_s = 0.0, self._clock.monotonic_s()

    def _advance(self) -> None:
        taken, self._spans = self._spans, {}
        clocks: dict[tuple[int, bool], Spans] = {}  # by rank, and whether on the device's clock
        for meter in list(self._meters.values()):
            if meter.rank in taken:
                clock = meter.rank, meter.source.is_accelerator
                if clock not in clocks:
                    tables = [spans.of(meter.source) for spans in taken[meter.rank]]
                    clocks[clock] = self._of(SpanTable.concat(tables)).filled()
                with self._only(meter):
                    meter.accumulator.feed_spans(clocks[clock])
        self._used |= taken.keys()
        for meter in list(self._meters.values()):
            if meter.rank is not None:
                with self._only(meter):
                    self._feed(meter)
                    if not meter.accumulator.must_search:
                        meter.accumulator.advance()

    @contextlib.contextmanager
    def _only(self, meter: _AttributedMeter) -> Iterator[None]:
        """What fails inside ends this meter's attribution here, and no other's."""
        self._beat()
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            self._meters.pop(meter.source.id, None)
            self._faults.append(
                f"{meter.source.id}: its attribution failed while it was recorded "
                f"({type(error).__name__}: {error}); the report tries again from raw data"
            )

    def save(
        self, members: Iterable[Member], timelines: Timelines, end_ns: int | None = None
    ) -> None:
        """Seal the statistics; with the run's end, for the last time. Raises OSError.

        Args:
            timelines: where the spans came from.
        """
        self.advance(members)
        with self._guard():
            for meter in list(self._meters.values()):
                if meter.rank is not None:
                    with self._only(meter):
                        self._save(meter, meter.rank, timelines, end_ns)

    def _save(
        self, meter: _AttributedMeter, rank: int, timelines: Timelines, end_ns: int | None
    ) -> None:
        statistics = meter.accumulator.statistics
        if end_ns is not None:
            statistics = meter.accumulator.finish((end_ns - self._origin_ns) / NS_PER_S)
        if end_ns is not None and not statistics.lanes:
            return
        # Before anything is known too: the next recorder must know that it is not the first.
        arrays = to_arrays(
            statistics,
            source=meter.source.id,
            rank=rank,
            complete=end_ns is not None,
            resumed=meter.accumulator.resumed,
            rings=timelines.rings(rank),
            on_device=meter.source.is_accelerator and timelines.on_device(rank),
        )
        files.write_arrays(statistics_path(self._run, meter.source.id), arrays)

    def _feed(self, meter: _AttributedMeter) -> None:
        if meter.reads:
            table = np.array(meter.reads, np.float64)
            time_ns = np.array([read[0] for read in meter.reads], np.int64)
            meter.accumulator.feed_reads(
                (time_ns - self._origin_ns) / NS_PER_S,
                table[:, 1] / NS_PER_S,
                table[:, 2] * meter.source.scale,
            )
            meter.reads.clear()

    def _of(self, table: SpanTable) -> Spans:
        inside = table.code != Code.OUTSIDE
        return Spans(
            (table.begin_ns[inside] - self._origin_ns) / NS_PER_S,
            (table.end_ns[inside] - self._origin_ns) / NS_PER_S,
            table.code[inside].astype(np.int64),
        )
