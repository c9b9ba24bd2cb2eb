"""What the GPU's units do: SM, tensor and DRAM activity from GPM (Hopper and newer).

nvmlGpmSampleGet before and after a window, nvmlGpmMetricsGet between the two, in
percent. NVIDIA: windows under 100 ms are invalid; 200 ms is used. A MIG instance is
sampled by nvmlGpmMigSampleGet, if the job named just one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, ClassVar

from ...model import Absence, Source
from ...units import NS_PER_MS, NS_PER_S
from ..base import SensorContext
from .devices import Device, DeviceHandle
from .polling import Gauge, NvmlSensor, Values
from .session import Failed, Session, attempt, failed

WINDOW_NS = 200 * NS_PER_MS
METRICS = {  # NVML_GPM_METRIC_*: id -> quantity
    2: "sm_activity",  # SM_UTIL
    5: "tensor_activity",  # ANY_TENSOR_UTIL
    10: "dram_activity",  # DRAM_BW_UTIL
}


class _Window:
    """Two GPM samples of one device, the older one replaced at each read."""

    def __init__(self, session: Session, instance: int | None) -> None:
        self._nvml = session.nvml
        self._instance = instance
        self._samples: list[Any] = []
        self._request: Any = None
        self._full = False  # the older sample is valid

    def open(self, handle: Any) -> None:
        """Take the first sample; raises what NVML raises."""
        nvml = self._nvml
        while len(self._samples) < 2:
            self._samples.append(nvml.nvmlGpmSampleAlloc())
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(METRICS)
        for position, metric in enumerate(METRICS):
            request.metrics[position].metricId = metric
        self._request = request
        self._take(handle)
        self._full = True

    def _take(self, handle: Any) -> None:
        newest = self._samples[1]
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(handle, newest)
        else:
            self._nvml.nvmlGpmMigSampleGet(handle, self._instance, newest)
        self._samples.reverse()  # now [0] is the newest: the next window begins there

    def read(self, handle: Any) -> Values:
        """The metrics since the read before, in percent."""
        full, self._full = self._full, False  # a failed sample leaves no window
        self._take(handle)
        self._full = True
        if not full:
            return [Failed("no sample at the window's beginning")] * len(METRICS)
        request = self._request
        request.sample1, request.sample2 = self._samples[1], self._samples[0]
        self._nvml.nvmlGpmMetricsGet(request)
        return [self._metric(request.metrics[i]) for i in range(len(METRICS))]

    def _metric(self, metric: Any) -> float | Failed:
        if metric.nvmlReturn:
            return failed(self._nvml.NVMLError(int(metric.nvmlReturn)))
        value = float(metric.value)
        if not isfinite(value) or not 0 <= value <= 101:
            return Failed(f"{METRICS[int(metric.metricId)]} reads {value!r}")
        return min(value, 100.0)

    def close(self) -> None:
        for sample in self._samples:
            attempt(lambda sample=sample: self._nvml.nvmlGpmSampleFree(sample))  # type: ignore[misc]
        self._samples = []


class NvmlActivitySensor(NvmlSensor):
    """SM, tensor and DRAM activity of the selected GPUs, as ratios of their peak."""

    name: ClassVar[str] = "nvml_activity"

    def __init__(self, context: SensorContext) -> None:
        super().__init__(context)
        self._windows: list[_Window] = []

    def open(self) -> Sequence[Source]:
        sources = super().open()
        # A window must have passed before the first read can say anything.
        begin = self.context.clock.now_ns() + WINDOW_NS
        for meter in self._meters:
            meter.next_ns = begin
        return sources

    def gauges(self, session: Session, device: Device, handle: DeviceHandle) -> Sequence[Gauge]:
        window = self._open_window(session, device)
        if isinstance(window, Failed):
            remedy = "a GPU of the Hopper generation or newer" if window.code == 3 else None
            units = f"GPU {device.index} SM, tensor and DRAM activity"
            self.absent.append(
                Absence(sensor=self.name, what=units, reason=window.reason, remedy=remedy)
            )
            return ()
        self._windows.append(window)
        note = "mean over the window since the sample before"
        sources = tuple(
            device.source(
                quantity,
                "ratio",
                0.01,
                method="gpm",
                resolution_s=WINDOW_NS / NS_PER_S,
                attributable=device.mig or not device.shared,
                note=note + ("; of the MIG instance" if device.mig else ""),
            )
            for quantity in METRICS.values()
        )
        # Each call is probed once; a first window is not there yet, so that it answers is enough.
        first = [True]

        def call(handle: Any) -> Values:
            if first:
                first.clear()
                return [0.0] * len(METRICS)
            return window.read(handle)

        what = tuple(f"GPU {device.index} {quantity}" for quantity in METRICS.values())
        return (Gauge(sources, call, WINDOW_NS, what),)

    def _open_window(self, session: Session, device: Device) -> _Window | Failed:
        nvml = session.nvml
        support = attempt(lambda: nvml.nvmlGpmQueryDeviceSupport(device.handle))
        if isinstance(support, Failed):
            return support
        if not support.isSupportedDevice:
            return Failed("the device has no GPM", 3)
        instance: int | None = None
        if device.mig:
            if len(device.mig_uuids) != 1:
                return Failed("a MIG device, and it is not known which instance is the job's")
            outcome = attempt(lambda: _instance_of(nvml, device.mig_uuids[0]))
            if isinstance(outcome, Failed):
                return outcome
            instance = outcome
        window = _Window(session, instance)
        opened = attempt(lambda: window.open(device.handle))
        if isinstance(opened, Failed):
            window.close()
            return opened
        return window

    def close(self) -> None:
        for window in self._windows:
            window.close()
        self._windows = []
        super().close()


def _instance_of(nvml: Any, uuid: str) -> int:
    """GPU instance id of a MIG device."""
    handle = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    return int(nvml.nvmlDeviceGetGpuInstanceId(handle))
