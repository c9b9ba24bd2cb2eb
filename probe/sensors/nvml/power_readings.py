"""Three ways to read a device's power from NVML, in milliwatts; the fourth is :mod:`sample_buffer`.

Field 186 is "instant" (in truth a window of tens of ms, refreshed every
~100 ms), field 185 the mean of the last second, nvmlDeviceGetPowerUsage one or the other by
architecture. A reading of 0, of all ones or of more than 20 kW is not a reading: drivers
answer so where they have none.
"""

from __future__ import annotations

import math
from typing import Any

from .devices import DeviceHandle
from .sample_buffer import union_value
from .session import Failed, Session, attempt

FIELD_AVERAGE, FIELD_INSTANT = 185, 186  # NVML_FI_DEV_POWER_AVERAGE, …_INSTANT
MAX_MW = 20_000_000

Milliwatts = float | Failed


def power_of(value: object) -> Milliwatts:
    """``value`` as mW, or why it cannot be one."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return Failed(f"power reads {value!r}")
    if not 0 < value <= MAX_MW:
        return Failed(f"power reads {value:g} mW")
    return float(value)


class PowerCalls:
    """Power readings of one device. Each method makes one NVML call."""

    def __init__(self, session: Session, handle: DeviceHandle) -> None:
        self._nvml, self._handle = session.nvml, handle
        self.instant, self.average = self.fields()
        self.usage_probe = self.usage()

    def fields(self) -> tuple[Milliwatts, Milliwatts]:
        """(instant, 1 s average) by nvmlDeviceGetFieldValues."""
        nvml, handle = self._nvml, self._handle.value
        fields = [FIELD_INSTANT, FIELD_AVERAGE]
        answer = attempt(lambda: nvml.nvmlDeviceGetFieldValues(handle, fields))
        if isinstance(answer, Failed):
            return answer, answer
        return self._field(answer[0]), self._field(answer[1])

    def instantaneous(self) -> Milliwatts:
        """Field 186."""
        return self.fields()[0]

    def _field(self, field: Any) -> Milliwatts:
        if field.nvmlReturn:
            code = int(field.nvmlReturn)
            return Failed(f"NVML: field {field.fieldId}: {self._nvml.NVMLError(code)}", code)
        return power_of(union_value(field.valueType, field.value))

    def usage(self) -> Milliwatts:
        """Power by ``nvmlDeviceGetPowerUsage``."""
        nvml, handle = self._nvml, self._handle.value
        value = attempt(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return value if isinstance(value, Failed) else power_of(value)

    def steadiest(self) -> Milliwatts:
        """The 1 s average where there is one, else the instant power, else the usage."""
        if isinstance(self.average, float) or isinstance(self.instant, float):
            instant, average = self.fields()
            return instant if isinstance(average, Failed) else average
        return self.usage() if isinstance(self.usage_probe, float) else self.usage_probe
