"""How NVML's meters are read: one loop for all sensors, and a schedule for each meter.

A meter is probed once when its sensor opens; what does not answer then is absent with the
reason. Later failures are gaps, and a lost device is asked once a second. Each meter says when it
wants to be read next (:mod:`.._schedule` has the rules); meters that are due within ``group_ns``
are read in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from ...clock import Clock
from ...errors import SensorUnavailable
from ...model import Absence, Reading, Sample, Source
from ...units import NS_PER_MS, NS_PER_S
from .._gap_log import GapLog
from .._schedule import GRID_NS, on_grid
from ..base import SensorContext
from .devices import Device, DeviceHandle, open_devices
from .session import Failed, Session, attempt, failed

Values = Sequence[float | Failed]


class Meter(Protocol):
    """Something that the loop reads when it is due."""

    next_ns: int

    def read(self, clock: Clock, out: list[Reading]) -> None:
        """Append what was read, and set ``next_ns``. Never raises."""


OpenMeter = tuple[Meter, Sequence[Source]]  # a meter that answered, and what it feeds


class NvmlSensor:
    """Opens the selected devices, probes the meters of each, reads what is due.

    A subclass says which meters there are: :meth:`gauges`, or any others by :meth:`open_meters`.
    """

    name: ClassVar[str]
    group_ns: ClassVar[int] = 5 * NS_PER_MS

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.rule = ""  # which rule selected the devices
        self.context = context
        self.session: Session | None = None
        self._meters: list[Meter] = []

    def gauges(self, session: Session, device: Device, handle: DeviceHandle) -> Sequence[Gauge]:
        """The gauges of one device, none of them probed yet."""
        return ()

    def open_meters(self, session: Session, device: Device) -> list[OpenMeter]:
        """The meters of one device that answer; the others are listed in ``absent``."""
        handle = DeviceHandle(session, device)
        opened: list[OpenMeter] = []
        for gauge in self.gauges(session, device, handle):
            opened += open_gauge(gauge, handle, self.context.clock, self.name, self.absent)
        return opened

    def open(self) -> Sequence[Source]:
        session, devices, self.rule = open_devices(
            self.context.requests, self.absent, self.warnings
        )
        self.session = session
        sources: list[Source] = []
        for device in devices:
            for meter, measured in self.open_meters(session, device):
                self._meters.append(meter)
                sources += measured
        if not sources:
            self.close()
            first = self.absent[0]
            raise SensorUnavailable(f"{first.what}: {first.reason}", first.remedy)
        return sources

    def read(self) -> Iterable[Reading]:
        out: list[Reading] = []
        clock = self.context.clock
        due_ns = clock.now_ns() + self.group_ns
        for meter in self._meters:
            if meter.next_ns <= due_ns:
                meter.read(clock, out)
        return out

    def next_read_ns(self) -> int:
        if not self._meters:
            return self.context.clock.now_ns() + NS_PER_S
        return min(meter.next_ns for meter in self._meters)

    def close(self) -> None:
        session, self.session = self.session, None
        self._meters = []
        if session is not None:
            session.close()


@dataclass(frozen=True, slots=True)
class Gauge:
    """What one call measures at a fixed period, before it is known whether the device can."""

    sources: tuple[Source, ...]
    call: Callable[[Any], Values]  # takes the device's handle, returns one value a source
    period_ns: int
    what: tuple[str, ...]  # for the absence: "GPU 0 temperature"
    slow_call_ns: int = NS_PER_S  # a call slower than this is made ten times more rarely


class PolledGauge:
    """A gauge that works: reads it when it is due."""

    def __init__(
        self, gauge: Gauge, places: Sequence[int], handle: DeviceHandle, now_ns: int
    ) -> None:
        """``places`` are the values of the call that are kept."""
        self._call, self._handle = gauge.call, handle
        self._period_ns = gauge.period_ns
        self._kept = [(place, GapLog(gauge.sources[place].id, now_ns)) for place in places]
        self.next_ns = now_ns

    def read(self, clock: Clock, out: list[Reading]) -> None:
        begin_ns = clock.now_ns()
        try:
            values = self._call(self._handle.value)
        except Exception as error:
            values = [failed(error)] * (1 + self._kept[-1][0])
        end_ns = clock.now_ns()
        lost: Failed | None = None
        for place, gaps in self._kept:
            value = values[place]
            if isinstance(value, Failed):
                gap = gaps.bad(end_ns, value.reason)
                lost = value if value.lost else lost
            else:
                gap = gaps.good(end_ns)
                out.append(Sample(gaps.source, end_ns, value, end_ns - begin_ns))
            if gap is not None:
                out.append(gap)
        pause = self._period_ns
        if lost is not None:
            pause = max(pause, NS_PER_S)
            self._handle.renew(lost, end_ns)
        # Keep the rhythm; after a pause of the whole thread do not catch up.
        self.next_ns = max(self.next_ns + pause, end_ns + 3 * pause // 4)
        if pause >= GRID_NS:
            self.next_ns = on_grid(self.next_ns)


def open_gauge(
    gauge: Gauge, handle: DeviceHandle, clock: Clock, sensor: str, absent: list[Absence]
) -> list[OpenMeter]:
    """Probe a gauge once. Empty if nothing of it answers; what does not is listed in ``absent``."""
    begin_ns = clock.now_ns()
    outcome = attempt(lambda: gauge.call(handle.value))
    values: Values = [outcome] * len(gauge.sources) if isinstance(outcome, Failed) else outcome
    if clock.now_ns() - begin_ns > gauge.slow_call_ns:
        gauge = replace(gauge, period_ns=10 * gauge.period_ns)
    places: list[int] = []
    for place, (what, value) in enumerate(zip(gauge.what, values, strict=True)):
        if isinstance(value, Failed):
            absent.append(Absence(sensor=sensor, what=what, reason=value.reason))
        else:
            places.append(place)
    if not places:
        return []
    meter = PolledGauge(gauge, places, handle, clock.now_ns())
    return [(meter, [gauge.sources[place] for place in places])]


def bounded(value: Any, limit: float, what: str) -> float | Failed:
    """``value`` if it lies in [0, limit]; drivers answer all ones where they have nothing."""
    if isinstance(value, int | float) and 0 <= value <= limit:
        return float(value)
    return Failed(f"{what} reads {value!r}")
