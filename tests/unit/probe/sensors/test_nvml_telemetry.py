"""Telemetry and activity on the NVML rig: units, rates, absences."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from probe.errors import SensorUnavailable
from probe.model import DeviceRequest, Gap, Kind, Reading, Sample, Source
from probe.sensors import SensorContext
from probe.sensors.nvml.activity import NvmlActivitySensor
from probe.sensors.nvml.telemetry import NvmlTelemetrySensor
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import drive, in_child

S = TypeVar("S", NvmlTelemetrySensor, NvmlActivitySensor)


def opened(make: type[S], rig: NvmlRig, **request: object) -> tuple[S, dict[str, Source]]:
    rig.load()
    requests = (DeviceRequest(**request),)  # type: ignore[arg-type]
    sensor = make(SensorContext(requests=requests, clock=rig.clock()))
    return sensor, {source.quantity: source for source in sensor.open()}


def values(readings: list[Reading], source: Source) -> list[float]:
    samples = [r for r in readings if isinstance(r, Sample) and r.source == source.id]
    return [sample.value * source.scale for sample in samples]


@in_child
def test_every_quantity_in_base_units_once_a_second(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.gpu(0).event_reasons = 0x4
    sensor, sources = opened(NvmlTelemetrySensor, rig)
    readings = drive(sensor, rig.clock(), 10.0)
    expected = {
        "utilization": ("ratio", 0.87),
        "memory_utilization": ("ratio", 0.41),
        "memory_used": ("B", 12 * 2**30),
        "sm_clock": ("Hz", 1.755e9),
        "memory_clock": ("Hz", 2.619e9),
        "temperature": ("Cel", 61.0),
        "power_limit": ("W", 700.0),
        "clock_event_reasons": ("bitmask", 4.0),
        "pcie_tx": ("B/s", 12e6),
        "pcie_rx": ("B/s", 34e6),
    }
    capped = sources.pop("power_cap_time")
    assert (capped.unit, capped.kind) == ("s", Kind.COUNTER)
    assert {q: s.unit for q, s in sources.items()} == {q: u for q, (u, _) in expected.items()}
    for quantity, (_, value) in expected.items():
        measured = values(readings, sources[quantity])
        assert 10 <= len(measured) <= 11
        assert measured == pytest.approx([value] * len(measured))
    assert not any(source.in_total for source in sources.values())


@in_child
def test_time_under_the_cap_is_counted_five_times_a_second(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.gpu(0).cap_w = 400.0
    sensor, sources = opened(NvmlTelemetrySensor, rig)
    start = rig.now_ns()
    rig.set_power(0, 450.0, start + 2_000_000_000)
    rig.set_power(0, 200.0, start + 5_000_000_000)
    measured = values(drive(sensor, rig.clock(), 10.0), sources["power_cap_time"])
    assert 49 <= len(measured) <= 51
    assert measured[-1] - measured[0] == pytest.approx(3.0, abs=0.01)


@in_child
def test_slow_calls_are_made_more_rarely(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.control.latency_ns = 20_000_000
    sensor, sources = opened(NvmlTelemetrySensor, rig)
    readings = drive(sensor, rig.clock(), 30.0)
    assert len(values(readings, sources["pcie_tx"])) <= 4


@in_child
def test_what_is_unsupported_is_absent_and_the_rest_works(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.set_mig(0, ["MIG-aaaa"])  # utilisation is not supported under MIG
    rig.fail("nvmlDeviceGetTemperature", 13)  # removed: its successor is used
    rig.fail("nvmlDeviceGetCurrentClocksEventReasons", 13)  # older driver
    sensor, sources = opened(NvmlTelemetrySensor, rig)
    absent = {a.what: a.reason for a in sensor.absent}
    assert set(absent) == {"GPU 0 utilization", "GPU 0 memory utilization"}
    assert "Not Supported" in absent["GPU 0 utilization"]
    assert {"temperature", "clock_event_reasons", "memory_used"} <= set(sources)


@in_child
def test_a_failing_meter_is_a_gap_and_leaves_the_others(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(NvmlTelemetrySensor, rig)
    drive(sensor, rig.clock(), 2.0)
    rig.fail("nvmlDeviceGetTemperature", 999)
    readings = drive(sensor, rig.clock(), 5.0)
    assert values(readings, sources["temperature"]) == []
    assert {r.what for r in readings if isinstance(r, Gap)} == {sources["temperature"].id}
    assert len(values(readings, sources["sm_clock"])) >= 5


@in_child
def test_activity_ratios_five_times_a_second(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(NvmlActivitySensor, rig)
    readings = drive(sensor, rig.clock(), 10.0)
    for quantity, value in (
        ("sm_activity", 0.83),
        ("tensor_activity", 0.41),
        ("dram_activity", 0.57),
    ):
        assert sources[quantity].unit == "ratio"
        measured = values(readings, sources[quantity])
        assert 49 <= len(measured) <= 50
        assert measured == pytest.approx([value] * len(measured))
    assert not [r for r in readings if isinstance(r, Gap)]
    sensor.close()
    assert rig.calls("nvmlGpmSampleFree") == rig.calls("nvmlGpmSampleAlloc") == 2


@in_child
def test_an_older_gpu_has_no_activity(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.gpu(0).gpm = 0
    with pytest.raises(SensorUnavailable, match="no GPM") as error:
        opened(NvmlActivitySensor, rig)
    assert "Hopper" in (error.value.remedy or "")


@in_child
def test_activity_of_the_jobs_own_mig_instance(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.set_mig(0, ["MIG-aaaa", "MIG-bbbb"])
    sensor, sources = opened(NvmlActivitySensor, rig, visible="MIG-bbbb")
    assert sources["sm_activity"].attributable
    assert values(drive(sensor, rig.clock(), 2.0), sources["sm_activity"])
    with pytest.raises(SensorUnavailable, match="which instance"):
        opened(NvmlActivitySensor, rig)
