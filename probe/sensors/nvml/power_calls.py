"""The three ways in which NVML tells a device's power, each probed once.

Field 186 is "instant" (in truth a window of tens of ms, refreshed every ~100 ms), field
185 the mean of the last second, nvmlDeviceGetPowerUsage one or the other by
architecture. All are milliwatts. A reading of 0, of all ones or of more than 20 kW is
no reading: drivers answer so where they have none.
"""

from __future__ import annotations

import math
from typing import Any

from .session import Device, Failed, Session, attempt

FIELD_AVERAGE, FIELD_INSTANT = 185, 186  # NVML_FI_DEV_POWER_AVERAGE, …_INSTANT
MAX_MW = 20_000_000
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

Milliwatts = float | Failed


def power_of(value: object) -> Milliwatts:
    """``value`` as mW, or why it cannot be one."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return Failed(f"power reads {value!r}")
    if not 0 < value <= MAX_MW:
        return Failed(f"power reads {value:g} mW")
    return float(value)


def union_value(kind: int, union: Any) -> object:
    """The member of nvmlValue_t that its type names; None for an unknown type."""
    name = _MEMBERS.get(kind)
    return None if name is None else getattr(union, name)


class PowerCalls:
    """Power readings of one device. Each method makes one NVML call."""

    def __init__(self, session: Session, device: Device) -> None:
        self._nvml = session.nvml
        self.handle = device.handle  # replaced when the device comes back
        self.instant, self.average = self.fields()
        self.usage_probe = self.usage()

    def fields(self) -> tuple[Milliwatts, Milliwatts]:
        """(instant, 1 s average) by nvmlDeviceGetFieldValues."""
        nvml, handle = self._nvml, self.handle
        fields = [FIELD_INSTANT, FIELD_AVERAGE]
        answer = attempt(lambda: nvml.nvmlDeviceGetFieldValues(handle, fields))
        if isinstance(answer, Failed):
            return answer, answer
        return self._field(answer[0]), self._field(answer[1])

    def _field(self, field: Any) -> Milliwatts:
        if field.nvmlReturn:
            code = int(field.nvmlReturn)
            return Failed(f"NVML: field {field.fieldId}: {self._nvml.NVMLError(code)}", code)
        return power_of(union_value(field.valueType, field.value))

    def usage(self) -> Milliwatts:
        """nvmlDeviceGetPowerUsage."""
        nvml, handle = self._nvml, self.handle
        value = attempt(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return value if isinstance(value, Failed) else power_of(value)
