"""GPUs of other makers: Intel's hwmon, Jetson's rails, AMD's library with its known faults."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from probe.analysis.meter_choice import elect
from probe.errors import SensorUnavailable
from probe.model import DISTRUSTED, RESTARTED, DeviceKind, DeviceRequest, Gap, Sample, Source
from probe.sensors import SensorContext
from probe.sensors.amd.amdsmi import AmdSmiSensor
from probe.sensors.sysfs.intel_gpu import IntelGpuSensor
from probe.sensors.sysfs.jetson import JetsonSensor
from tests.fakes.amdsmi_module import AmdSmiModule, make
from tests.fakes.sensor_driver import drive
from tests.fakes.sysfs_meters import IntelCard, JetsonModule, write
from tests.fakes.virtual_clock import VirtualClock

# -- Intel ------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["xe", "i915"])
def test_an_intel_card_counts_its_joules(tmp_path: Path, driver: str) -> None:
    card, clock = IntelCard(tmp_path, driver), VirtualClock()
    sensor = IntelGpuSensor(SensorContext(sys_root=card.root, clock=clock))
    (source,) = sensor.open()
    assert (source.device, source.vendor, source.in_total) == ("gpu0", "intel", True)
    assert source.device_kind is DeviceKind.ACCELERATOR
    samples: list[Sample] = []
    for _ in range(200):
        clock.sleep(0.02)
        card.add(120 * 0.02)
        samples += [r for r in sensor.read() if isinstance(r, Sample)]
    joules = (samples[-1].value - samples[0].value) * source.scale
    assert joules == pytest.approx(120 * (samples[-1].time_ns - samples[0].time_ns) / 1e9)


def test_an_intel_counter_at_0_or_unreadable_is_absent(tmp_path: Path) -> None:
    with pytest.raises(SensorUnavailable, match="no Intel GPU"):
        IntelGpuSensor(SensorContext(sys_root=tmp_path)).open()
    card = IntelCard(tmp_path)
    write(card.hwmon / "energy1_input", "0\n")
    write(card.hwmon / "energy2_input", "?\n")
    sensor = IntelGpuSensor(SensorContext(sys_root=card.root, clock=VirtualClock()))
    with pytest.raises(SensorUnavailable):
        sensor.open()
    assert len(sensor.absent) == 2
    request = DeviceRequest(devices="5")
    with pytest.raises(SensorUnavailable):
        IntelGpuSensor(SensorContext(sys_root=card.root, requests=(request,))).open()


def test_a_counter_that_vanishes_is_a_gap_and_one_that_falls_starts_anew(tmp_path: Path) -> None:
    card, clock = IntelCard(tmp_path), VirtualClock()
    sensor = IntelGpuSensor(SensorContext(sys_root=card.root, clock=clock))
    sensor.open()
    list(sensor.read())
    (card.hwmon / "energy1_input").unlink()
    clock.sleep(0.03)
    (gap,) = sensor.read()
    assert isinstance(gap, Gap) and "No such file" in gap.reason
    card.microjoules = 17
    card.add(0.0)
    clock.sleep(2.0)
    readings = list(sensor.read())
    assert [r.reason for r in readings if isinstance(r, Gap)][-1] == RESTARTED
    assert isinstance(readings[-1], Sample)


def test_a_counter_is_read_irregularly(tmp_path: Path) -> None:
    """Evenly spaced reads could fall into the same phase of every step."""
    card, clock = IntelCard(tmp_path), VirtualClock()
    sensor = IntelGpuSensor(SensorContext(sys_root=card.root, clock=clock))
    sensor.open()
    times = []
    for _ in range(200):
        clock.sleep((sensor.next_read_ns() - clock.now_ns()) / 1e9)
        times += [r.time_ns for r in sensor.read() if isinstance(r, Sample)]
    gaps_ms = np.diff(times) / 1e6
    assert gaps_ms.min() >= 13.9 and gaps_ms.max() <= 26.1 and gaps_ms.std() > 2
    assert gaps_ms.mean() == pytest.approx(20, abs=1)


# -- Jetson -----------------------------------------------------------------------


def test_a_jetsons_rails(tmp_path: Path) -> None:
    module, clock = JetsonModule(tmp_path), VirtualClock()
    sensor = JetsonSensor(SensorContext(sys_root=module.root, clock=clock))
    sources = {source.device: source for source in sensor.open()}
    assert set(sources) == {"gpu0", "cpu0", "node"}
    assert {device for device, source in sources.items() if source.in_total} == {"gpu0", "cpu0"}
    assert sources["node"].device_kind is DeviceKind.PLATFORM
    module.set(12.0, 3.0, 25.0)
    watts = {r.source: r.value for r in sensor.read() if isinstance(r, Sample)}
    assert {d: watts[s.id] * s.scale for d, s in sources.items()} == pytest.approx(
        {"gpu0": 12.0, "cpu0": 3.0, "node": 25.0}
    )
    write(module.hwmon / "curr1_input", "-77000\n")
    clock.sleep(0.1)
    gaps = [r for r in sensor.read() if isinstance(r, Gap)]
    assert [gap.what for gap in gaps] == [sources["gpu0"].id]


# -- AMD --------------------------------------------------------------------------


def opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> tuple[AmdSmiSensor, AmdSmiModule, VirtualClock, list[Source]]:
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    clock = VirtualClock()
    module = make(clock, fault)
    module.install(monkeypatch.setitem)
    sensor = AmdSmiSensor(SensorContext(sys_root=tmp_path / "sys", clock=clock))
    return sensor, module, clock, list(sensor.open())


def joules(readings: list[Sample | Gap], source: Source) -> float:
    """What a meter counts, as a report does: differences of a counter, the integral of power."""
    own = [r for r in readings if isinstance(r, Sample) and r.source == source.id]
    if source.quantity == "energy":
        return (own[-1].value - own[0].value) * source.scale
    pairs = itertools.pairwise(own)
    return sum(a.value * source.scale * (b.time_ns - a.time_ns) / 1e9 for a, b in pairs)


@pytest.mark.parametrize("fault", ["", "frozen", "unit", "second die", "wrap", "absent"])
def test_amd_counts_right_or_says_so_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    sensor, module, clock, sources = opened(tmp_path, monkeypatch, fault)
    readings = drive(sensor, clock, 20.0)
    samples = {
        s.id: sum(isinstance(r, Sample) and r.source == s.id for r in readings) for s in sources
    }
    gaps = [r for r in readings if isinstance(r, Gap)]
    elected = elect([(s, samples[s.id]) for s in sources], gaps)
    counted = {s.device: s for s in elected if s.in_total}
    assert set(counted) == ({"gpu0"} if fault == "second die" else {"gpu0", "gpu1"})
    for source in counted.values():
        assert joules(readings, source) == pytest.approx(300 * 20.0, rel=0.02), source
    energy = [s for s in sources if s.quantity == "energy"]
    assert len(energy) == {"": 2, "wrap": 2, "second die": 1}.get(fault, 0)
    reasons = " ".join(absence.reason for absence in sensor.absent)
    word = {
        "frozen": "stands still while 300 W",
        "unit": "wrong unit",
        "second die": "second die of a package",
        "absent": "no such function",
    }.get(fault, "")
    assert word in reasons
    assert not gaps
    sensor.close()
    assert module.users == 0


def test_an_amd_counter_that_stops_later_is_distrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensor, module, clock, sources = opened(tmp_path, monkeypatch, "")
    readings = list(drive(sensor, clock, 5.0))
    module.fault = "frozen"
    readings += drive(sensor, clock, 40.0)
    gaps = [r for r in readings if isinstance(r, Gap)]
    distrusted = {gap.what for gap in gaps if gap.reason.startswith(DISTRUSTED)}
    assert distrusted == {s.id for s in sources if s.quantity == "energy"}
    assert len(sensor.warnings) == 2
    samples = [(s, 30) for s in sources]
    assert {s.quantity for s in elect(samples, gaps) if s.in_total} == {"power"}


def test_without_amds_driver_or_package_it_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SensorUnavailable, match="amdgpu driver"):
        AmdSmiSensor(SensorContext(sys_root=tmp_path)).open()
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(SensorUnavailable, match="cannot be imported"):
            AmdSmiSensor(SensorContext(sys_root=tmp_path)).open()
    clock = VirtualClock()
    module = make(clock)

    def refuse() -> None:
        raise RuntimeError("AMDSMI_STATUS_DRIVER_NOT_LOADED\nmore")

    module.amdsmi_init = refuse  # type: ignore[method-assign]
    module.install(monkeypatch.setitem)
    with pytest.raises(SensorUnavailable, match="does not start: AMDSMI_STATUS_DRIVER_NOT_LOADED"):
        AmdSmiSensor(SensorContext(sys_root=tmp_path, clock=clock)).open()
