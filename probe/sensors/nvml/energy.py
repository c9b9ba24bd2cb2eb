"""GPU energy counters (nvmlDeviceGetTotalEnergyConsumption, mJ since driver load)."""

from __future__ import annotations

from typing import ClassVar

from ...model import Absence, Kind
from ...simulated_card import is_simulated
from ...units import J_PER_MJ, NS_PER_MS
from ..cards import published
from .calibration import load
from .devices import Device, DeviceHandle
from .energy_counter import EnergyCounter
from .polling import NvmlSensor, OpenMeter
from .session import Failed, Session


class NvmlEnergySensor(NvmlSensor):
    """Energy of the selected NVIDIA GPUs; the measured total rests on it."""

    name: ClassVar[str] = "nvml_energy"
    group_ns: ClassVar[int] = NS_PER_MS

    def open_meters(self, session: Session, device: Device) -> list[OpenMeter]:
        clock = self.context.clock
        value = session.probe_counter(device.index, device.handle, clock)
        if isinstance(value, Failed):
            self.absent.append(
                Absence(
                    sensor=self.name,
                    what=f"GPU {device.index} energy counter",
                    reason=value.reason,
                    remedy="power is sampled instead" if not value.lost else None,
                )
            )
            return []
        source = device.source(
            "energy",
            "J",
            J_PER_MJ,
            kind=Kind.COUNTER,
            method="counter",
            in_total=not device.shared,
            note=device.shared or device.scope_note,
            model=device.name,
            **_response(device, session.driver()),
        )
        handle = DeviceHandle(session, device)
        counter = EnergyCounter(
            session, handle, source.id, device.index, clock.now_ns(), self.warnings
        )
        return [(counter, (source,))]

    @property
    def notes(self) -> dict[str, str]:
        """What was found out about a source after it was opened, by source id."""
        return dict(line.split(": ", 1) for line in self.warnings if line.startswith("nvml:"))


def _response(device: Device, driver: str) -> dict[str, float | None]:
    """How the counter follows power, in a source's fields; empty if that is not known."""
    uuid = device.uuid
    if is_simulated(uuid):
        return {"lag_s": 0.0, "delay_s": 0.0}  # by construction; no calibration is kept of it
    calibration = load(uuid, driver)
    if calibration is None:  # a delay without a lag is where a search begins
        card = published(device.name, "energy", driver)
        return {"delay_s": card.delay_s} if card and card.delay_s else {}
    return {
        "lag_s": calibration.lag_s,
        "delay_s": calibration.delay_s,
        "average_s": calibration.average_s,
        "part_s": calibration.part_s,
    }
