"""The energy sensor on the NVML rig: joules, brackets, budget, failures, health."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from probe.analysis.meter_choice import follow_trust
from probe.errors import SensorUnavailable
from probe.model import DeviceRequest, Gap, Kind, Reading, Sample, Source
from probe.sensors import SensorContext
from probe.sensors._schedule import SPARSE_READS
from probe.sensors.nvml.energy import NvmlEnergySensor
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import ROOT, drive, in_child

READ = "nvmlDeviceGetTotalEnergyConsumption"


def opened(rig: NvmlRig, **request: object) -> tuple[NvmlEnergySensor, list[Source]]:
    rig.load()
    requests = (DeviceRequest(**request),)  # type: ignore[arg-type]
    sensor = NvmlEnergySensor(SensorContext(requests=requests, clock=rig.clock()))
    return sensor, list(sensor.open())


def samples(readings: list[Reading], source: str) -> list[Sample]:
    return [r for r in readings if isinstance(r, Sample) and r.source == source]


def gaps(readings: list[Reading], source: str | None = None) -> list[Gap]:
    return [r for r in readings if isinstance(r, Gap) and source in (None, r.what)]


def joules(samples: list[Sample]) -> float:
    return (samples[-1].value - samples[0].value) * 1e-3


@in_child
def test_the_source_says_what_it_is(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    sensor, sources = opened(rig)
    assert [s.id for s in sources] == [f"nvml:{rig.uuid(i)}:energy" for i in range(2)]
    second = sources[1]
    assert (second.device, second.uuid, second.unit, second.kind) == (
        "gpu1",
        rig.uuid(1),
        "J",
        Kind.COUNTER,
    )
    assert (second.scale, second.method, second.in_total, second.attributable) == (
        1e-3,
        "counter",
        True,
        True,
    )
    assert sensor.absent == []
    assert sensor.next_read_ns() <= rig.now_ns()  # the first read is due at once
    first = [r for r in sensor.read() if isinstance(r, Sample)]
    assert [s.source for s in first] == [s.id for s in sources]
    sensor.close()
    sensor.close()
    assert rig.initialised == 0


@in_child
def test_250_w_for_4_s_are_1000_j_in_real_time(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=250.0, period_s=0.1)
    sensor, sources = opened(rig)
    counter = samples(drive(sensor, rig.clock(), 4.0), sources[0].id)
    assert joules(counter) == pytest.approx(1000.0, abs=0.1 * 250)
    assert not gaps(drive(sensor, rig.clock(), 0.1))
    sensor.close()


@in_child
def test_a_changing_power_adds_up_exactly(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, period_s=0.02, jitter_s=0.001, virtual=True)
    start = rig.now_ns()
    for step in range(200):
        rig.set_power(0, 100.0 + 37 * (step % 11), start + step * 53_000_000)
    sensor, sources = opened(rig)
    counter = samples(drive(sensor, rig.clock(), 10.0), sources[0].id)
    truth = rig.true_energy_j(0, start, start + 10_000_000_000)
    assert joules(counter) == pytest.approx(truth, abs=2 * 0.021 * 500)


@in_child
def test_updates_lie_in_close_unbiased_brackets_within_the_budget(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=3, period_s=0.1, virtual=True)
    rig.control.latency_ns = 20_000
    sensor, sources = opened(rig)
    clock = rig.clock()
    drive(sensor, clock, 5.0)
    start, calls = clock.now_ns(), rig.calls(READ)
    readings = drive(sensor, clock, 30.0)
    for gpu, source in enumerate(sources):
        counter = samples(readings, source.id)
        assert len(counter) <= 2.2 * 300  # a bracket an update, not every read
        changes = [(a, b) for a, b in itertools.pairwise(counter) if b.value > a.value]
        updates = rig.updates(gpu, start, clock.now_ns())
        single = 0
        errors = []
        for before, after in changes:
            if before.time_ns < start:
                continue
            inside = [u for u in updates if before.time_ns - before.span_ns <= u <= after.time_ns]
            assert len(inside) >= 1
            single += len(inside) == 1
            if after.time_ns - before.time_ns <= 5_000_000:
                errors.append((before.time_ns + after.time_ns) / 2 - inside[0])
        assert single >= 0.98 * len(updates)  # each one's value is known
        assert len(errors) >= len(updates) / (1.2 * (1 + SPARSE_READS))
        assert abs(fmean(errors)) < 0.4e6  # ns; a tenth of the bracket
    assert (rig.calls(READ) - calls) / 30 <= 3 * 22


@in_child
def test_the_lock_follows_a_new_period_and_missed_updates(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, period_s=0.1, virtual=True)
    sensor, sources = opened(rig)
    clock = rig.clock()
    drive(sensor, clock, 5.0)
    rig.set_period(0, 0.083, skip=0.1)
    drive(sensor, clock, 10.0)
    calls, start = rig.calls(READ), clock.now_ns()
    readings = drive(sensor, clock, 20.0)
    assert (rig.calls(READ) - calls) / 20 <= 50
    counter = samples(readings, sources[0].id)
    close = [
        b
        for a, b in itertools.pairwise(counter)
        if b.value > a.value and b.time_ns - a.time_ns <= 12_000_000
    ]
    assert len(close) >= 0.9 * 0.9 * len(rig.updates(0, start, clock.now_ns()))
    assert not gaps(readings)


@in_child
def test_a_lost_gpu_is_asked_once_a_second_and_resumes(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    sensor, sources = opened(rig)
    clock = rig.clock()
    drive(sensor, clock, 3.0)
    lost = clock.now_ns()
    rig.lose(0, back_ns=lost + 30_000_000_000)
    calls = rig.calls(READ, 0)
    readings = drive(sensor, clock, 29.5)
    assert rig.calls(READ, 0) - calls <= 35
    missing = gaps(readings, sources[0].id)
    assert 1 <= len(missing) <= 10
    assert "lost" in missing[0].reason
    assert all(a.end_ns == b.begin_ns for a, b in itertools.pairwise(missing))
    assert not [s for s in samples(readings, sources[0].id) if s.time_ns > lost + 200_000_000]
    assert not gaps(readings, sources[1].id)
    assert joules(samples(readings, sources[1].id)) == pytest.approx(29.5 * 250, abs=60)
    readings = drive(sensor, clock, 10.0)
    rest = gaps(readings, sources[0].id)
    assert rest[-1].end_ns == pytest.approx(lost + 30_000_000_000, abs=1.5e9)
    assert joules(samples(readings, sources[0].id)) == pytest.approx(9 * 250, rel=0.12)


@in_child
def test_a_reset_counter_is_a_gap_and_goes_on(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(rig)
    clock = rig.clock()
    drive(sensor, clock, 3.0)
    reset = rig.gpu(0).reset_ns = clock.now_ns() + 1_000_000_000
    readings = drive(sensor, clock, 10.0)
    backwards = [g for g in gaps(readings) if "backwards" in g.reason]
    assert len(backwards) == 1
    assert backwards[0].begin_ns <= reset + 100_000_000
    assert backwards[0].end_ns >= reset
    counter = samples(readings, sources[0].id)
    before = [s for s in counter if s.time_ns < reset]
    after = [s for s in counter if s.time_ns >= backwards[0].end_ns]
    assert before[-1].value > 1e8 > after[-1].value
    assert all(a.value <= b.value for a, b in itertools.pairwise(after))
    assert joules(after) == pytest.approx(9 * 250, abs=60)


@pytest.mark.parametrize("value", [0, 0xFFFFFFFF, -1, 5, 2**50])
@in_child
def test_a_wrong_value_is_a_gap_and_never_a_sample(tmp_path: Path, value: int) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(rig)
    clock = rig.clock()
    drive(sensor, clock, 3.0)
    start = clock.now_ns()
    # One read of five ms: a glitch, not a new counter.
    rig.answer(READ, value, at_ns=start + 1_000_000_000, until_ns=start + 1_012_000_000)
    readings = drive(sensor, clock, 4.0)
    counter = samples(readings, sources[0].id)
    assert all(123_456_789 < s.value < 2e9 for s in counter)
    assert joules(counter) == pytest.approx(1000, abs=60)


@in_child
def test_reads_that_spoil_the_counter_slow_down(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    sensor, sources = opened(rig)
    clock = rig.clock()
    # Reads closer than 50 ms lose energy, as one study found.
    rig.gpu(0).fast_read_ns, rig.gpu(0).fast_read_loss_mj = 50_000_000, 600.0
    readings = drive(sensor, clock, 15.0)
    assert _distrusted(readings) == {sources[0].id}  # a run that ends now does not count it
    readings += drive(sensor, clock, 45.0)
    assert _distrusted(readings) == set()
    text = "\n".join(sensor.warnings)
    assert sources[0].id in text
    assert "differs from sampled power" in text
    assert "agrees when read once a second" in text
    calls = rig.calls(READ)
    counter = samples(drive(sensor, clock, 20.0), sources[0].id)
    assert rig.calls(READ) - calls <= 21
    assert joules(counter) == pytest.approx(19 * 250, rel=0.06)


@in_child
def test_a_counter_at_a_sixth_of_the_power_is_slowed_down_then_distrusted(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    rig.gpu(1).counter_gain = 1 / 6
    sensor, sources = opened(rig)
    readings = drive(sensor, rig.clock(), 120.0)
    assert len(sensor.warnings) == 2  # when it is slowed down, and when that did not help
    assert all(line.startswith(f"{sources[1].id}: ") for line in sensor.warnings)
    assert "its joules are not used" in sensor.notes[sources[1].id]
    assert _distrusted(readings) == {sources[1].id}


def _distrusted(readings: list[Reading]) -> set[str]:
    distrusted: set[str] = set()
    for gap in gaps(readings):
        follow_trust(gap, distrusted)
    return distrusted


@in_child
def test_a_sound_counter_under_a_swinging_load_is_not_called_out(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    start = rig.now_ns()
    for step in range(3000):
        rig.set_power(0, 700.0 if step % 3 else 120.0, start + step * 61_000_000)
    sensor, _ = opened(rig)
    drive(sensor, rig.clock(), 170.0)
    assert sensor.warnings == []


@in_child
def test_a_mig_card_gives_no_number_to_a_job(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    rig.set_mig(0, ["MIG-aaaa", "MIG-bbbb"])
    _, sources = opened(rig, visible="MIG-aaaa")
    assert [s.device for s in sources] == ["gpu0"]
    assert not sources[0].in_total
    assert not sources[0].attributable
    assert "shared by MIG instances" in sources[0].note


@in_child
def test_a_vgpu_and_a_gh200_say_what_they_measure(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    rig.gpu(0).virtualization = 2
    rig.gpu(1).name = b"NVIDIA GH200 480GB"
    _, sources = opened(rig)
    assert "vGPU" in sources[0].note
    assert not sources[0].in_total
    assert sources[1].note == "whole module, CPU included"
    assert sources[1].in_total


@in_child
def test_a_uuid_prefix_selects(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=4, virtual=True)
    sensor, sources = opened(rig, visible="GPU-00000002")
    assert [s.device for s in sources] == ["gpu2"]
    assert sensor.rule.startswith("visible")


@in_child
def test_without_a_uuid_the_index_names_the_source(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.fail("nvmlDeviceGetUUID", 999)
    _, sources = opened(rig)
    assert sources[0].id == "nvml:index-0:energy"
    assert sources[0].uuid == ""


@in_child
def test_an_unsupported_counter_is_absent_with_the_reason(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, virtual=True)
    rig.fail(READ, 3, gpu=0)
    sensor, sources = opened(rig)
    assert [s.device for s in sources] == ["gpu1"]
    assert sensor.absent[0].what == "GPU 0 energy counter"
    assert "Not Supported" in sensor.absent[0].reason
    sensor.close()
    rig.fail(READ, 3)
    with pytest.raises(SensorUnavailable, match="Not Supported"):
        opened(rig)
    assert rig.initialised == 0


@in_child
def test_a_counter_that_starts_at_zero_is_used(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path)
    rig.gpu(0).counter_offset_mj = 0
    rig.gpu(0).tape[0].time_ns = rig.now_ns()
    sensor, sources = opened(rig)
    counter = samples(drive(sensor, rig.clock(), 1.0), sources[0].id)
    assert joules(counter) == pytest.approx(250, abs=40)


@in_child
def test_a_counter_that_stays_at_zero_under_load_is_absent(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, virtual=True)
    rig.answer(READ, 0)
    with pytest.raises(SensorUnavailable, match="stays at 0"):
        opened(rig)


@in_child
def test_start_up_failures_have_their_own_line(tmp_path: Path) -> None:
    for code, words in ((9, "not loaded"), (18, "different versions"), (4, "permission")):
        rig = NvmlRig(tmp_path, virtual=True)
        rig.fail("nvmlInitWithFlags", code)
        with pytest.raises(SensorUnavailable, match=words) as error:
            opened(rig)
        assert error.value.remedy
    rig = NvmlRig(tmp_path, gpus=0, virtual=True)
    with pytest.raises(SensorUnavailable, match="no GPU"):
        opened(rig)


def test_without_a_driver_the_reason_names_the_library() -> None:
    # LD_LIBRARY_PATH is left alone: with a real driver there is nothing to show here.
    script = (
        "from probe.errors import SensorUnavailable\n"
        "from probe.sensors import SensorContext\n"
        "from probe.sensors.nvml.energy import NvmlEnergySensor\n"
        "try: NvmlEnergySensor(SensorContext()).open(); print('a driver')\n"
        "except SensorUnavailable as e: print(e.reason, '|', e.remedy)\n"
    )
    command = [sys.executable, "-c", script]
    env = dict(os.environ)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=True,
    )
    if "a driver" in done.stdout:
        pytest.skip("this machine has an NVIDIA driver")
    assert done.stdout.startswith("no NVIDIA driver: libnvidia-ml.so.1 not found | install")
