"""Puts the live page together: devices, phases, newest values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...model import Gap, Provenance, Reading, Sample, Source
from ...store import live
from ...store.layout import node_name
from ...store.live import LivePage, LiveValue
from ...timeline.span_table import SpanTable
from ...units import NS_PER_S
from ..drain import RingDrain
from ..fault_guard import Breaker
from ..pipeline.attribution import Attributing
from .meters import LiveMeters
from .phases import LivePhases

_STALE_NS = 10 * NS_PER_S  # an older value is no value


class Publisher:
    """Fed with what the recorder reads; writes the page.

    Trouble of its own ends the page, never the recording; a disk that refuses is the recorder's
    to tell (OSError).
    """

    def __init__(self, run: Path, begin_ns: int):
        self._run, self._begin_ns = run, begin_ns
        self._meters, self._phases = LiveMeters(), LivePhases()
        self._sources: dict[str, Source] = {}
        self._newest: dict[str, Sample] = {}
        self._gaps = 0
        self._safely = Breaker("nothing is told live any more")

    def open(self, sources: Iterable[Source]) -> None:
        """New sources."""
        with self._safely():
            for source in sources:
                self._sources[source.id] = source
            self._meters.open(self._sources.values())

    def readings(self, readings: Iterable[Reading]) -> None:
        """What the sensors said, in order."""
        if self._safely.broken:
            return
        readings = list(readings)
        with self._safely():
            self._meters.take(readings)
            for reading in readings:
                if isinstance(reading, Gap):
                    self._gaps += reading.count
                else:
                    self._newest[reading.source] = reading

    def spans(self, rank: int, table: SpanTable) -> None:
        """Spans of a rank that its main ring's marks come to."""
        if len(table) and not self._safely.broken:
            with self._safely():
                self._phases.spans(rank, table)

    def estimates(
        self, attributing: Attributing, now_ns: int, on_device: Mapping[int, Mapping[int, float]]
    ) -> None:
        """The estimator's word on every device whose energy it follows.

        Args:
            on_device: of ranks with a device's own clock, the seconds of their phases on it.
        """
        if self._safely.broken:
            return
        run_s = (now_ns - self._begin_ns) / NS_PER_S
        with self._safely():
            spoken = {d.source: d for d in self._meters.page(now_ns)}
            for source, rank, statistics in attributing.statistics():
                if (device := spoken.get(source.id)) is not None:
                    self._phases.estimates(
                        device.device,
                        rank,
                        statistics,
                        device.energy_j,
                        run_s,
                        on_device.get(rank) if source.is_accelerator else None,
                    )

    def publish(
        self,
        now_ns: int,
        drains: Iterable[RingDrain],
        names: Mapping[int, Mapping[int, str]],
        *,
        final: bool = False,
    ) -> None:
        """Replace the page. Raises OSError."""
        if self._safely.broken:
            return
        drains = list(drains)
        with self._safely():
            devices = tuple(self._meters.page(now_ns))
            measured = {
                d.device: d.energy_j for d in devices if d.provenance == Provenance.MEASURED
            }
            live.write_live(
                self._run,
                LivePage(
                    now_ns,
                    time.time(),
                    node_name(),
                    final,
                    max((d.steps for d in drains), default=0),
                    sum(d.lost for d in drains),
                    self._gaps,
                    max((d.last_ns for d in drains), default=0),
                    devices,
                    tuple(self._phases.phases(measured, names)),
                    tuple(self._phases.times(names)),
                    tuple(self._values(now_ns)),
                ),
            )

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
