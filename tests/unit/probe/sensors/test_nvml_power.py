"""Power on the NVML rig: which reading it is, the total without a counter, the buffer."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from probe.model import DISTRUSTED, DeviceRequest, Gap, Reading, Sample, Source
from probe.sensors import SensorContext
from probe.sensors.nvml.energy import NvmlEnergySensor
from probe.sensors.nvml.power import NvmlPowerSensor
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import drive, in_child


def opened(rig: NvmlRig, **request: object) -> tuple[NvmlPowerSensor, dict[str, Source]]:
    rig.load()
    requests = (DeviceRequest(**request),)  # type: ignore[arg-type]
    sensor = NvmlPowerSensor(SensorContext(requests=requests, clock=rig.clock()))
    return sensor, {source.id.rsplit(":", 1)[1]: source for source in sensor.open()}


def values(readings: list[Reading], source: Source) -> list[float]:
    samples = [r for r in readings if isinstance(r, Sample) and r.source == source.id]
    return [sample.value * source.scale for sample in samples]


@in_child
def test_instant_and_average_beside_a_counter(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(rig)
    assert set(sources) == {"power", "power_average"}
    assert sources["power"].method == "field 186"
    assert sources["power_average"].method == "field 185"
    assert sources["power_average"].note == "1 s average"
    assert not any(source.in_total for source in sources.values())
    rig.set_power(0, 450.0)
    readings = drive(sensor, rig.clock(), 10.0)
    assert 19 <= len(values(readings, sources["power"])) <= 21  # 2 Hz
    assert values(readings, sources["power"])[-1] == pytest.approx(450)
    assert values(readings, sources["power_average"])[-1] == pytest.approx(450)
    # The second reading comes within a grid step of half a second.
    assert values(readings, sources["power_average"])[1] == pytest.approx(355, abs=10)
    sensor.close()
    assert rig.initialised == 0


@pytest.mark.parametrize(
    ("arch", "name", "words"),
    [
        (9, "NVIDIA H100", "1 s average"),
        (7, "NVIDIA A40", "1 s average"),
        (7, "NVIDIA A100-SXM4-80GB", "instant"),
        (7, "NVIDIA RTX A3000", "1 s average"),
        (5, "Tesla V100", "instant"),
    ],
)
@in_child
def test_usage_says_which_kind_it_is(tmp_path: Path, arch: int, name: str, words: str) -> None:
    rig = NvmlRig(tmp_path, arch=arch, name=name, virtual=True)
    rig.fail("nvmlDeviceGetFieldValues", 3)
    _, sources = opened(rig)
    assert set(sources) == {"power"}
    assert sources["power"].method == "usage"
    assert sources["power"].note.startswith(words)


@in_child
def test_without_a_counter_power_is_the_total(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=80.0, virtual=True)
    rig.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    rig.gpu(0).field_186 = 0
    sensor, sources = opened(rig)
    assert sources["power"].in_total
    assert sources["power"].method == "power-integral"
    assert "usage" in sources["power"].note
    assert not sources["power_average"].in_total
    readings = drive(sensor, rig.clock(), 10.0)
    watts = values(readings, sources["power"])
    assert 9 <= len(watts) <= 12  # unchanged power is stored once a second
    assert set(watts) == {80.0}


def swing(rig: NvmlRig, seconds: float) -> None:
    """Power that is another in each 70 ms, from now on."""
    for turn in range(round(seconds / 0.07)):
        at_ns = rig.now_ns() + 70_000_000 * turn
        rig.set_power(0, 100.0 + 37.0 * (turn * 7 % 11), at_ns)


def refreshes(readings: list[Reading], source: Source) -> tuple[list[int], list[float]]:
    """(widths of the brackets in which a reading was seen to change, ns; the values)."""
    samples = [r for r in readings if isinstance(r, Sample) and r.source == source.id]
    changes = [
        (b.time_ns - a.time_ns, b.value)
        for a, b in itertools.pairwise(samples)
        if a.value != b.value
    ]
    return [width for width, _ in changes], [value for _, value in changes]


@in_child
def test_power_that_counts_is_read_around_its_refreshes(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=80.0, virtual=True)
    rig.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    sensor, sources = opened(rig)
    swing(rig, 40.0)
    before = rig.calls("nvmlDeviceGetFieldValues")
    readings = drive(sensor, rig.clock(), 30.0)
    assert (rig.calls("nvmlDeviceGetFieldValues") - before) / 30 < 60
    widths, _ = refreshes(readings, sources["power"])
    assert len(widths) >= 290  # all of some 300
    assert sorted(widths)[len(widths) // 10] < 5_000_000


@in_child
def test_power_is_read_closely_once_the_counter_is_distrusted(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.set_response(0, gain=1 / 6)  # a known fault
    sensor, sources = opened(rig)
    counter = NvmlEnergySensor(SensorContext(requests=(DeviceRequest(),), clock=rig.clock()))
    counter.open()
    assert sources["power"].tracked and not sources["power"].in_total
    swing(rig, 60.0)
    readings = drive([sensor, counter], rig.clock(), 55.0)
    distrusted = [
        r.end_ns for r in readings if isinstance(r, Gap) and r.reason.startswith(DISTRUSTED)
    ]
    early = [r for r in readings if isinstance(r, Sample) and r.time_ns < distrusted[0]]
    late = [r for r in readings if isinstance(r, Sample) and r.time_ns > distrusted[0]]
    seconds = (late[-1].time_ns - late[0].time_ns) / 1e9
    assert len(refreshes(early, sources["power"])[0]) < 3 * 55
    assert len(refreshes(late, sources["power"])[0]) > 9 * seconds
    counter.close()
    sensor.close()
    assert rig.initialised == 0


@in_child
def test_a_card_that_is_lost_is_a_gap_and_power_comes_back(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    sensor, sources = opened(rig)
    swing(rig, 30.0)
    drive(sensor, rig.clock(), 5.0)
    rig.lose(0, back_ns=rig.now_ns() + 4_000_000_000)
    readings = drive(sensor, rig.clock(), 12.0)
    gaps = [r for r in readings if isinstance(r, Gap) and r.what == sources["power"].id]
    assert gaps and "lost" in gaps[0].reason.lower()
    assert isinstance(readings[-1], Sample)


@in_child
def test_a_shared_card_is_never_the_total(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    rig.gpu(0).virtualization = 2
    _, sources = opened(rig)
    assert not any(source.in_total or source.attributable for source in sources.values())


@pytest.mark.parametrize("boot", [0, 1])
@in_child
def test_the_drivers_buffer_gives_every_sample_at_its_time(tmp_path: Path, boot: int) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    gpu = rig.gpu(0)
    gpu.sample_spacing_ns, gpu.sample_clock = 20_000_000, boot
    sensor, sources = opened(rig)
    assert sources["power_samples"].resolution_s == pytest.approx(0.02)
    drive(sensor, rig.clock(), 3.0)
    start = rig.now_ns()
    for step in range(100):
        rig.set_power(0, 100.0 + step, start + step * 100_000_000)
    readings = drive(sensor, rig.clock(), 10.0)
    samples = [
        r
        for r in readings
        if isinstance(r, Sample) and r.source == sources["power_samples"].id and r.time_ns > start
    ]
    assert len(samples) >= 450
    steps = {b.time_ns - a.time_ns for a, b in itertools.pairwise(samples)}
    assert all(abs(step - 20_000_000) < 2_000_000 for step in steps)  # none lost, none twice
    for sample in samples:
        begin = sample.time_ns - 20_000_000
        mean = rig.true_energy_j(0, begin, sample.time_ns) / 0.02
        assert sample.value * 1e-3 == pytest.approx(mean, abs=1.5)
        assert sample.span_ns == 0
    assert rig.calls("nvmlDeviceGetSamples") < 40


@in_child
def test_a_coarse_or_unclocked_buffer_is_absent_with_the_reason(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.gpu(0).sample_spacing_ns = 166_000_000
    sensor, sources = opened(rig)
    assert "power_samples" not in sources
    assert "166 ms" in sensor.absent[-1].reason


@pytest.mark.parametrize("value", [0, 0xFFFFFFFF])
@in_child
def test_an_absurd_power_is_a_gap(tmp_path: Path, value: int) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(rig)
    drive(sensor, rig.clock(), 1.0)
    rig.answer("nvmlDeviceGetFieldValues", value)
    readings = drive(sensor, rig.clock(), 20.0)
    assert values(readings, sources["power"]) == []
    gaps = [r for r in readings if isinstance(r, Gap) and r.what == sources["power"].id]
    assert 1 <= len(gaps) <= 6
    assert sum(gap.count for gap in gaps) <= 40
