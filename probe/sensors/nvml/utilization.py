"""Utilisation over known windows: the driver's own samples, each the mean since the one before.

NVML_GPU_UTILIZATION_SAMPLES is the share of time in which any kernel ran,
NVML_MEMORY_UTILIZATION_SAMPLES that in which device memory was read or written, in percent, about
six times a second. What nvmlDeviceGetUtilizationRates says is the newest of them, with a window
that is not told: good for a live picture (:mod:`.telemetry`), not for phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...model import Source
from ...units import NS_PER_S
from .devices import Device, DeviceHandle
from .polling import Gauge, NvmlSensor, OpenMeter, bounded
from .sample_buffer import SampleBuffer, SampledQuantity, open_buffer
from .session import Failed, Session

_PERCENT = 0.01


def _percent(value: object) -> float | Failed:
    return bounded(value, 100, "utilization")


_QUANTITIES = {
    "kernel_time": SampledQuantity(1, "utilization samples", _percent, NS_PER_S),
    "memory_time": SampledQuantity(2, "memory utilization samples", _percent, NS_PER_S),
}


class NvmlUtilizationSensor(NvmlSensor):
    """Shares of time in which kernels ran and memory was used, of the selected GPUs."""

    name: ClassVar[str] = "nvml_utilization"

    def gauges(self, session: Session, device: Device, handle: DeviceHandle) -> Sequence[Gauge]:
        """None: all comes from the driver's buffers."""
        return ()

    def open_meters(self, session: Session, device: Device) -> list[OpenMeter]:
        opened: list[OpenMeter] = []
        for name, quantity in _QUANTITIES.items():

            def source(spacing_s: float, note: str, name: str = name) -> Source:
                return device.source(
                    name, "ratio", _PERCENT, method="samples", resolution_s=spacing_s, note=note
                )

            buffer = open_buffer(self.name, session, device, self.context.clock, quantity, source)
            if isinstance(buffer, SampleBuffer):
                opened.append((buffer, (buffer.source,)))
            else:
                self.absent.append(buffer)
        return opened
