"""What a GPU does besides drawing power, once a second.

nvmlDeviceGetUtilizationRates (%), GetMemoryInfo (B), GetClockInfo (MHz), GetTemperature
(°C), GetEnforcedPowerLimit (mW), GetViolationStatus (ns under the power cap so far, five
times a second), GetCurrentClocksEventReasons (bit mask: 0x4 software
power cap, 0x8 hardware slowdown, 0x20 software thermal, 0x40 hardware thermal, 0x80
power brake), GetPcieThroughput (KB/s over 20 ms; the call takes as long, so it is made
every 10 s where it does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...model import Kind, Source
from ...units import HZ_PER_MHZ, NS_PER_MS, NS_PER_S, S_PER_NS, W_PER_MW
from .devices import Device, DeviceHandle
from .polling import Gauge, NvmlSensor, bounded
from .session import Failed, Session, attempt, failed

_PERCENT = 0.01
_B_PER_KB = 1000.0
_MAX_MHZ, _MAX_CELSIUS, _MAX_MW, _MAX_BYTES = 20_000, 200, 20_000_000, 2.0**60
_MAX_NS = 2.0**62
CAP_NS = NS_PER_S // 5
_CAPPED_BY_POWER = 0  # NVML_PERF_POLICY_POWER
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_PCIE_TX, _PCIE_RX = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, …_RX_BYTES


class NvmlTelemetrySensor(NvmlSensor):
    """Utilisation, memory, clocks, temperature, limits and PCIe of the selected GPUs."""

    name: ClassVar[str] = "nvml_telemetry"

    def gauges(self, session: Session, device: Device, handle: DeviceHandle) -> Sequence[Gauge]:
        n = session.nvml

        def source(quantity: str, unit: str, scale: float, note: str = "", **more: Any) -> Source:
            note = note or ("of the whole card, shared" if device.shared else "")
            return device.source(quantity, unit, scale, method="nvml", note=note, **more)

        def simple(
            quantity: str,
            unit: str,
            scale: float,
            most: float,
            call: Callable[[Any], Any],
            note: str = "",
            **more: Any,
        ) -> Gauge:
            return Gauge(
                (source(quantity, unit, scale, note, **more),),
                lambda handle: (bounded(call(handle), most, quantity),),
                NS_PER_S,
                (f"GPU {device.index} {quantity}",),
                slow_call_ns=5 * NS_PER_MS,
            )

        def rates(handle: Any) -> tuple[float | Failed, float | Failed]:
            used = n.nvmlDeviceGetUtilizationRates(handle)
            return bounded(used.gpu, 100, "utilization"), bounded(used.memory, 100, "utilization")

        return (
            Gauge(
                (
                    source("utilization", "ratio", _PERCENT, "share of time with a kernel"),
                    source("memory_utilization", "ratio", _PERCENT, "share of time in memory"),
                ),
                rates,
                NS_PER_S,
                (f"GPU {device.index} utilization", f"GPU {device.index} memory utilization"),
            ),
            simple(
                "memory_used",
                "B",
                1.0,
                _MAX_BYTES,
                lambda h: n.nvmlDeviceGetMemoryInfo(h).used,
                limit=_memory(n, device),
            ),
            simple(
                "sm_clock",
                "Hz",
                HZ_PER_MHZ,
                _MAX_MHZ,
                lambda h: n.nvmlDeviceGetClockInfo(h, _CLOCK_SM),
            ),
            simple(
                "memory_clock",
                "Hz",
                HZ_PER_MHZ,
                _MAX_MHZ,
                lambda h: n.nvmlDeviceGetClockInfo(h, _CLOCK_MEMORY),
            ),
            simple(
                "temperature",
                "Cel",
                1.0,
                _MAX_CELSIUS,
                lambda h: _either(  # the older call was removed from newer drivers
                    lambda: n.nvmlDeviceGetTemperature(h, 0),
                    lambda: n.nvmlDeviceGetTemperatureV(h, 0),
                ),
            ),
            simple("power_limit", "W", W_PER_MW, _MAX_MW, n.nvmlDeviceGetEnforcedPowerLimit),
            Gauge(
                (
                    source(
                        "power_cap_time",
                        "s",
                        S_PER_NS,
                        "time under the power cap",
                        kind=Kind.COUNTER,
                    ),
                ),
                lambda handle: (
                    bounded(
                        n.nvmlDeviceGetViolationStatus(handle, _CAPPED_BY_POWER).violationTime,
                        _MAX_NS,
                        "power cap time",
                    ),
                ),
                CAP_NS,
                (f"GPU {device.index} time under the power cap",),
                slow_call_ns=5 * NS_PER_MS,
            ),
            simple(
                "clock_event_reasons",
                "bitmask",
                1.0,
                2.0**32,
                lambda h: _either(  # the name changed with driver 535
                    lambda: n.nvmlDeviceGetCurrentClocksEventReasons(h),
                    lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(h),
                ),
            ),
            simple(
                "pcie_tx",
                "B/s",
                _B_PER_KB,
                2.0**31,
                lambda h: n.nvmlDeviceGetPcieThroughput(h, _PCIE_TX),
                "over 20 ms",
            ),
            simple(
                "pcie_rx",
                "B/s",
                _B_PER_KB,
                2.0**31,
                lambda h: n.nvmlDeviceGetPcieThroughput(h, _PCIE_RX),
                "over 20 ms",
            ),
        )


def _memory(nvml: Any, device: Device) -> float | None:
    """All that the device has, in bytes."""
    total = attempt(lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle).total)
    return None if isinstance(total, Failed) else float(total)


def _either(call: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """The first call's value, or the other's where the driver does not have the first."""
    try:
        return call()
    except Exception as error:
        if failed(error).code not in (3, 13, 26):  # not supported, absent, deprecated
            raise
    return other()
