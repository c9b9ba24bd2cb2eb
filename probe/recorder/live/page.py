"""Puts the live page together: devices, phases, newest values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from ...analysis.rates import rate_rows
from ...attribution.meter_kinds import is_rate
from ...attribution.regression.statistics import Statistics
from ...clock import Clock
from ...model import Gap, Provenance, Reading, Sample, Source
from ...store.layout import node_name
from ...store.live import LiveMemory, LivePage, LiveRate, LiveValue, write_live
from ...timeline.phase_levels import PhaseLevels
from ...timeline.span_table import SpanTable
from ...units import NS_PER_S
from ..cpu_share import CpuShare
from ..drain import RingDrain
from ..fault_guard import FaultGuard, guarded
from ..trainings import steps
from .meters import LiveMeters
from .phases import LivePhases, phase_name_of

_STALE_NS = 10 * NS_PER_S  # an older value is no value
# Of a core, for solving. The first seconds of CPU time are free, or somebody who begins to look at
# many devices would see nothing for minutes.
_ENERGIES_CPU, _RATES_CPU = 0.02, 0.01
_FREE_S = 6.0


class LivePageStage:
    """Fed with what the recorder reads; writes the page.

    A failure inside ends the page, never the recording; an OSError of the disk is raised.
    """

    def __init__(self, run: Path, begin_ns: int, clock: Clock):
        self._run, self._begin_ns, self._clock = run, begin_ns, clock
        self._meters, self._phases = LiveMeters(), LivePhases()
        self._sources: dict[str, Source] = {}
        self._newest: dict[str, Sample] = {}
        self._names: Mapping[int, Mapping[int, str]] = {}
        self._rates: dict[str, list[LiveRate]] = {}  # by source
        self._gaps = 0
        self._energies_cpu = CpuShare(clock, _ENERGIES_CPU, free_s=_FREE_S)
        self._rates_cpu = CpuShare(clock, _RATES_CPU, free_s=_FREE_S)
        self.guard = FaultGuard("the live page is not written any more")
        self._estimate_guard = FaultGuard("a device's phases have no live estimate")

    @guarded
    def open(self, sources: Iterable[Source]) -> None:
        """New sources."""
        self._sources |= {source.id: source for source in sources}
        self._meters.open(self._sources.values())

    @guarded
    def readings(self, readings: Collection[Reading]) -> None:
        """What the sensors read, in order."""
        self._meters.take(readings)
        for reading in readings:
            if isinstance(reading, Gap):
                self._gaps += reading.count
            else:
                self._newest[reading.source] = reading

    @guarded
    def spans(self, rank: int, table: SpanTable) -> None:
        """Spans of a rank's main ring."""
        if len(table):
            self._phases.spans(rank, table)

    @guarded
    def estimates(
        self,
        statistics: Iterable[tuple[Source, int, Statistics]],
        now_ns: int,
        on_device: Mapping[int, Mapping[int, float]],
    ) -> None:
        """Solve for the phases of every device, and for how busy they kept it.

        Many devices take long, so either is left out until it has had less than its share of a
        core. Phases go on at their power meanwhile.

        Args:
            statistics: source, rank and what the estimator knows of each meter.
            on_device: of ranks with a device's own clock, the seconds of their phases on it.
        """
        run_s = (now_ns - self._begin_ns) / NS_PER_S
        shown = {device.source: device for device in self._meters.page(now_ns)}
        energies_due, rates_due = self._energies_cpu.due(), self._rates_cpu.due()
        for source, rank, of_meter in statistics:
            if is_rate(source):
                if not rates_due:
                    continue
                with self._rates_cpu, self._estimate_guard():
                    clock = on_device.get(rank) if source.is_accelerator else None
                    seconds = clock or self._phases.seconds(rank)
                    self._rates[source.id] = self._busy(source, rank, seconds, run_s, of_meter)
            elif energies_due and (device := shown.get(source.id)) is not None:
                gpu = source.is_accelerator
                # The guard is of one meter: the others' phases go on.
                with self._energies_cpu, self._estimate_guard():
                    self._phases.estimates(
                        device.device,
                        rank,
                        of_meter,
                        device.energy_j,
                        run_s,
                        on_device.get(rank) if gpu else None,
                    )

    def _busy(
        self,
        source: Source,
        rank: int,
        seconds: Mapping[int, float],
        run_s: float,
        statistics: Statistics,
    ) -> list[LiveRate]:
        """What a meter of a rate says of each phase that it tells apart."""
        names = self._names.get(rank, {})
        return [
            LiveRate(
                row.phase,
                row.device,
                row.quantity,
                row.source,
                row.value,
                *row.interval,
                str(row.status),
            )
            for row in rate_rows(
                source,
                seconds,
                partial(phase_name_of, names=names),
                run_s,
                statistics,
                self._phases.counts(rank),
            )
            if row.value is not None and row.interval is not None
        ]

    @guarded
    def publish(
        self,
        now_ns: int,
        drains: Iterable[RingDrain],
        names: Mapping[int, Mapping[int, str]],
        memory: Iterable[PhaseLevels],
        *,
        final: bool = False,
    ) -> None:
        """Replace the page. Raises OSError."""
        drains, self._names = list(drains), names
        devices = tuple(self._meters.page(now_ns))
        measured = {d.device: d.energy_j for d in devices if d.provenance == Provenance.MEASURED}
        page = LivePage(
            now_ns,
            self._clock.wall_s(),
            node_name(),
            final,
            steps(drains),
            sum(d.lost for d in drains),
            self._gaps,
            max((d.last_ns for d in drains), default=0),
            devices,
            tuple(self._phases.phases(measured, names)),
            tuple(self._phases.times(names)),
            tuple(self._values(now_ns)),
            tuple(_memory(memory, names)),
            tuple(rate for rates in self._rates.values() for rate in rates),
        )
        write_live(self._run, page)

    def _values(self, now_ns: int) -> Iterable[LiveValue]:
        for id_, sample in self._newest.items():
            source = self._sources.get(id_)
            if source is not None and now_ns - sample.time_ns < _STALE_NS:
                yield LiveValue(
                    source.device,
                    source.quantity,
                    str(source.kind),
                    sample.value * source.scale,
                    sample.time_ns,
                    str(source.device_kind),
                )


def _memory(
    levels: Iterable[PhaseLevels], names: Mapping[int, Mapping[int, str]]
) -> Iterator[LiveMemory]:
    for of_gauge in levels:
        for code, level in of_gauge.phases.items():
            yield LiveMemory(
                phase_name_of(code, names.get(of_gauge.rank, {})),
                of_gauge.rank,
                of_gauge.device,
                of_gauge.quantity,
                of_gauge.source,
                level.mean,
                level.highest,
                level.at_most,
            )
