"""GPU power: field 186 (instant), field 185 (1 s average), else nvmlDeviceGetPowerUsage.

Beside an energy counter power is a picture, read twice a second. Without one, or where the two
disagree, its integral is the device's energy in the total, and it is read closely around its
refreshes (:mod:`.tracked_power`). Where the driver keeps power samples closer than 25 ms, they
are a third source. All values are mW (:mod:`.power_readings`, :mod:`.sample_buffer`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ...model import Absence, Source
from ...units import NS_PER_MS, NS_PER_S, W_PER_MW
from ..cards import problems, published
from .devices import Device, DeviceHandle
from .polling import Gauge, NvmlSensor, OpenMeter, open_gauge
from .power_readings import Milliwatts, PowerCalls, power_of
from .sample_buffer import SampleBuffer, SampledQuantity, open_buffer
from .session import Failed, Session
from .tracked_power import TrackedPower

WITH_COUNTER_NS = NS_PER_S // 2
_INSTANT = "instant: a window of tens of ms"
_AVERAGE = "1 s average"
_INSTANT_DRIVER = "530."  # under which the usage of Ampere and newer is instant, too
# NVML_TOTAL_POWER_SAMPLES; a coarser buffer says no more than direct reads.
_SAMPLES = SampledQuantity(0, "power samples", power_of, 25 * NS_PER_MS)


class NvmlPowerSensor(NvmlSensor):
    """Power of the selected NVIDIA GPUs."""

    name: ClassVar[str] = "nvml_power"
    group_ns: ClassVar[int] = NS_PER_MS

    def open_meters(self, session: Session, device: Device) -> list[OpenMeter]:
        handle = DeviceHandle(session, device)
        calls = PowerCalls(session, handle)
        opened = self._tracked(session, device, handle, calls)
        if isinstance(calls.average, float):
            average = Gauge(
                (_source(device, "power_average", "field 185", _AVERAGE, 1.0),),
                lambda _: (calls.fields()[1],),
                WITH_COUNTER_NS,
                (f"GPU {device.index} field 185",),
            )
            opened += open_gauge(average, handle, self.context.clock, self.name, self.absent)
        elif isinstance(calls.instant, float):
            self._absent(f"GPU {device.index} field 185", calls.average)
        buffer = open_buffer(
            self.name,
            session,
            device,
            self.context.clock,
            _SAMPLES,
            lambda spacing_s, note: device.source(
                "power_samples",
                "W",
                W_PER_MW,
                model=device.name,
                method="samples",
                resolution_s=spacing_s,
                note=note,
            ),
        )
        if not isinstance(buffer, SampleBuffer):
            self.absent.append(buffer)
            return opened
        return [*opened, (buffer, (buffer.source,))]

    def _tracked(
        self, session: Session, device: Device, handle: DeviceHandle, calls: PowerCalls
    ) -> list[OpenMeter]:
        """The reading that can stand in for a counter: field 186, else the usage."""
        index, average = device.index, device.usage_is_average
        if average and session.driver().startswith(_INSTANT_DRIVER):
            average = False
        method, about, resolution_s = "field 186", _INSTANT, None
        call = calls.instantaneous
        if isinstance(calls.instant, Failed):
            if isinstance(calls.average, float):
                self._absent(f"GPU {index} field 186", calls.instant)
            if isinstance(calls.usage_probe, Failed):
                self._absent(f"GPU {index} power usage", calls.usage_probe)
                return []
            method, call = "usage", calls.usage
            about = "1 s average or instant: unknown architecture"
            if average is not None:
                about, resolution_s = (_AVERAGE, 1.0) if average else (_INSTANT, None)
        counter = session.probe_counter(index, device.handle, self.context.clock)
        alone = isinstance(counter, Failed) and not device.shared
        card = published(device.name, "power", session.driver())
        self.warnings += [line for line in problems() if line not in self.warnings]
        source = replace(
            _source(device, "power", method, about, resolution_s, alone=alone),
            part_s=card.window_s if card else None,  # without a lag: where a search begins
            delay_s=card.delay_s if card else None,
        )
        now_ns = self.context.clock.now_ns()

        def counts() -> bool:
            return alone or (source.tracked and session.is_distrusted(index))

        return [(TrackedPower(source.id, call, handle, WITH_COUNTER_NS, counts, now_ns), (source,))]

    def _absent(self, what: str, why: Milliwatts) -> None:
        if isinstance(why, Failed):
            self.absent.append(Absence(sensor=self.name, what=what, reason=why.reason))


def _source(
    device: Device,
    quantity: str,
    method: str,
    about: str,
    resolution_s: float | None,
    *,
    alone: bool = False,
) -> Source:
    """A power reading's source; ``alone``: it is the device's energy in the total."""
    parts = [about, device.shared or device.scope_note]
    if alone:  # the note keeps the name of the call
        parts.insert(0, f"{method}, integrated: the device has no energy counter")
    return device.source(
        quantity,
        "W",
        W_PER_MW,
        model=device.name,
        method="power-integral" if alone else method,
        note="; ".join(part for part in parts if part),
        resolution_s=resolution_s,
        in_total=alone,
        tracked=quantity == "power" and not device.shared,
    )
