"""GPU power: field 186 (instant), field 185 (1 s average), else nvmlDeviceGetPowerUsage.

Beside an energy counter power is a picture, read twice a second. Without one it is read
ten times a second and its integral is the device's energy in the total. Where the
driver keeps power samples closer than 25 ms, they are a third source. All values are mW
(:mod:`.power_readings`, :mod:`.sample_buffer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...model import Source
from ...units import NS_PER_MS, NS_PER_S, W_PER_MW
from .devices import Device, DeviceHandle
from .polling import Gauge, NvmlSensor, OpenMeter
from .power_readings import PowerCalls, power_of
from .sample_buffer import SampleBuffer, SampledQuantity, open_buffer
from .session import Failed, Session

WITH_COUNTER_NS = NS_PER_S // 2
WITHOUT_COUNTER_NS = NS_PER_S // 10
_INSTANT = "instant: a window of tens of ms"
_AVERAGE = "1 s average"
# NVML_TOTAL_POWER_SAMPLES; a coarser buffer says no more than direct reads.
_SAMPLES = SampledQuantity(0, "power samples", power_of, 25 * NS_PER_MS)


class NvmlPowerSensor(NvmlSensor):
    """Power of the selected NVIDIA GPUs."""

    name: ClassVar[str] = "nvml_power"

    def gauges(self, session: Session, device: Device, handle: DeviceHandle) -> Sequence[Gauge]:
        calls = PowerCalls(session, handle)
        counter = session.probe_counter(device.index, device.handle, self.context.clock)
        alone = isinstance(counter, Failed) and not device.shared
        period_ns = WITHOUT_COUNTER_NS if alone else WITH_COUNTER_NS

        def source(quantity: str, method: str, about: str, resolution_s: float | None) -> Source:
            parts = [about, device.shared or device.scope_note]
            total = alone and quantity == "power"
            if total:  # the note keeps the name of the call
                parts.insert(0, f"{method}, integrated: the device has no energy counter")
            return device.source(
                quantity,
                "W",
                W_PER_MW,
                model=device.name,
                method="power-integral" if total else method,
                note="; ".join(part for part in parts if part),
                resolution_s=resolution_s,
                in_total=total,
            )

        fields = Gauge(
            (
                source("power", "field 186", _INSTANT, None),
                source("power_average", "field 185", _AVERAGE, 1.0),
            ),
            lambda _: calls.fields(),
            period_ns,
            (f"GPU {device.index} field 186", f"GPU {device.index} field 185"),
        )
        if not isinstance(calls.instant, Failed):
            return (fields,)
        is_average = device.usage_is_average
        about = "1 s average or instant: unknown architecture"
        if is_average is not None:
            about = _AVERAGE if is_average else _INSTANT
        usage = Gauge(
            (source("power", "usage", about, 1.0 if is_average else None),),
            lambda _: (calls.usage(),),
            period_ns,
            (f"GPU {device.index} power usage",),
        )
        return (fields, usage) if not isinstance(calls.average, Failed) else (usage,)

    def open_meters(self, session: Session, device: Device) -> list[OpenMeter]:
        opened = super().open_meters(session, device)
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
