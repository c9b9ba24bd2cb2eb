"""GPU power: field 186 (instant), field 185 (1 s average), else nvmlDeviceGetPowerUsage.

Beside an energy counter power is a picture, read twice a second. Without one it is read
ten times a second and its integral is the device's energy in the total. Where the
driver keeps power samples closer than 25 ms (:mod:`_power_buffer`), they are a third
source. All values are mW.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...model import Kind, Provenance, Source
from ...units import NS_PER_S, W_PER_MW
from .poller import NvmlPoller, Pollable
from .polling import Link, Meter, Values
from .power_buffer import PowerBuffer, open_buffer
from .power_calls import PowerCalls
from .session import Device, Failed, Session

WITH_COUNTER_NS = NS_PER_S // 2
WITHOUT_COUNTER_NS = NS_PER_S // 10
_INSTANT = "instant: a window of tens of ms"
_AVERAGE = "1 s average"


class NvmlPowerSensor(NvmlPoller):
    """Power of the selected NVIDIA GPUs."""

    name: ClassVar[str] = "nvml_power"

    def meters(self, session: Session, device: Device) -> Sequence[Meter]:
        calls = PowerCalls(session, device)
        counter = session.probe_counter(device)
        alone = isinstance(counter, Failed) and not device.shared
        period = WITHOUT_COUNTER_NS if alone else WITH_COUNTER_NS
        base = Source(
            id=device.source_id("power"),
            device=device.device,
            quantity="power",
            unit="W",
            model=device.name,
            kind=Kind.GAUGE,
            provenance=Provenance.MEASURED,
            scale=W_PER_MW,
            uuid=device.uuid,
            attributable=not device.shared,
        )

        def named(source: Source, method: str, kind: str, resolution_s: float | None) -> Source:
            parts = [kind, device.shared or device.scope_note]
            total = alone and source.id == base.id
            if total:  # the note keeps the name of the call
                parts.insert(0, f"{method}, integrated: the device has no energy counter")
            note = "; ".join(part for part in parts if part)
            return replace(
                source,
                method="power-integral" if total else method,
                note=note,
                resolution_s=resolution_s,
                in_total=total,
            )

        average = replace(base, id=device.source_id("power_average"), quantity="power_average")

        def fields(handle: Any) -> Values:
            calls.handle = handle
            return calls.fields()

        def usage(handle: Any) -> Values:
            calls.handle = handle
            return (calls.usage(),)

        both = Meter(
            (named(base, "field 186", _INSTANT, None), named(average, "field 185", _AVERAGE, 1.0)),
            fields,
            period,
            (f"GPU {device.index} field 186", f"GPU {device.index} field 185"),
        )
        if not isinstance(calls.instant, Failed):
            return (both,)
        is_average = device.usage_is_average
        kind = "1 s average or instant: unknown architecture"
        if is_average is not None:
            kind = _AVERAGE if is_average else _INSTANT
        fallback = Meter(
            (named(base, "usage", kind, 1.0 if is_average else None),),
            usage,
            period,
            (f"GPU {device.index} power usage",),
        )
        return (both, fallback) if not isinstance(calls.average, Failed) else (fallback,)

    def more(self, session: Session, device: Device) -> tuple[list[Pollable], list[Source]]:
        opened = open_buffer(session, device, Link(session, device), self.context.clock)
        if not isinstance(opened, PowerBuffer):
            self.absent.append(opened)
            return [], []
        return [opened], [opened.source]
