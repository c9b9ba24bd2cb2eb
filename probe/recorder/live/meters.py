"""Joules so far and watts now of every device, from the readings as they come: the live page.

The report's totals come from the same readings (:mod:`probe.report.build`), but also extrapolate
before the first and after the last update of a counter; here that energy is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ...analysis.meter_choice import POWERS, follow_trust, speaks, stand_ins
from ...model import RESTARTED, Gap, Kind, Provenance, Reading, Sample, Source
from ...store.live import LiveDevice
from ...units import NS_PER_S

_WINDOW_NS = NS_PER_S  # power is the mean over this at least
_SILENT_NS = 3 * NS_PER_S


class _LiveMeter:
    """Energy of one meter since its first reading."""

    def __init__(self, source: Source):
        self.source = source
        self.samples = 0
        self.joules = 0.0
        self._value: float | None = None  # the last one, raw
        self._time_ns = 0  # of the last energy that is known
        self._lately: deque[tuple[int, float]] = deque()  # time, joules; over the window

    def take(self, sample: Sample) -> None:
        before, self._value = self._value, sample.value
        self.samples += 1
        if self.source.kind is Kind.COUNTER:
            if before == sample.value:
                return  # a counter is as old as its last change
            self.joules += 0.0 if before is None else self._step(sample.value - before)
        else:
            seconds = (sample.time_ns - self._time_ns) / NS_PER_S
            mean = self.source.quantity == "power_samples"
            if before is not None:
                watts = sample.value if mean else (sample.value + before) / 2
                self.joules += max(0.0, seconds) * watts * self.source.scale
        self._time_ns = sample.time_ns
        lately = self._lately
        lately.append((sample.time_ns, self.joules))
        while len(lately) > 2 and lately[-1][0] - lately[1][0] >= _WINDOW_NS:
            lately.popleft()

    def _step(self, raw: float) -> float:
        if raw < 0 and self.source.wrap_raw:
            raw += self.source.wrap_raw
        return max(0.0, raw) * self.source.scale

    def restart(self) -> None:
        """What lies between the last reading and the next is not known."""
        self._value = None
        self._lately.clear()

    def page(self, now_ns: int) -> LiveDevice:
        source, lately = self.source, self._lately
        power = None
        if len(lately) > 1 and now_ns - lately[-1][0] <= _SILENT_NS:
            seconds = (lately[-1][0] - lately[0][0]) / NS_PER_S
            power = (lately[-1][1] - lately[0][1]) / seconds if seconds > 0 else None
        return LiveDevice(
            source.device,
            source.id,
            str(source.provenance),
            self.joules,
            power,
            self._time_ns,
            source.uuid,
            str(source.device_kind),
        )


class LiveMeters:
    """All meters of energy or power; :meth:`page` names one per device."""

    def __init__(self) -> None:
        self._meters: dict[str, _LiveMeter] = {}
        self._distrusted: set[str] = set()

    def open(self, sources: Iterable[Source]) -> None:
        """Follow those of new sources that measure energy or power."""
        for source in sources:
            has_energy = source.is_energy_counter or source.quantity in POWERS
            if source.attributable and has_energy:
                self._meters.setdefault(source.id, _LiveMeter(source))

    def take(self, readings: Iterable[Reading]) -> None:
        """Add readings of the sensors, in order."""
        for reading in readings:
            if isinstance(reading, Gap):
                follow_trust(reading, self._distrusted)
                if reading.reason == RESTARTED and reading.what in self._meters:
                    self._meters[reading.what].restart()
            elif reading.source in self._meters:
                self._meters[reading.source].take(reading)

    def page(self, now_ns: int) -> list[LiveDevice]:
        """Every device whose energy is measured or modelled, once."""
        meters = list(self._meters.values())
        counted = stand_ins([(m.source, m.samples) for m in meters], self._distrusted)
        return [
            meter.page(now_ns)
            for meter in meters
            if meter.samples
            and (speaks(meter.source, counted) or meter.source.provenance is Provenance.MODELLED)
        ]
