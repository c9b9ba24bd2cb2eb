"""RAPL on a tree of real files: wraparound, twins, permissions, vanishing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probe.errors import SensorUnavailable
from probe.model import RESTARTED, Gap, Sample
from probe.sensors import SensorContext
from probe.sensors.rapl import RaplSensor
from tests.fakes.energy_curves import from_counter
from tests.fakes.rapl import MAX_UJ, RaplRig

np = pytest.importorskip("numpy")


class Clock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def now_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


def opened(rig: RaplRig, clock: Clock) -> tuple[RaplSensor, list]:
    sensor = RaplSensor(SensorContext(powercap_root=rig.root, clock=clock))
    return sensor, list(sensor.open())


def drive(sensor: RaplSensor, rig: RaplRig, clock: Clock, seconds: float, watts: float) -> list:
    readings = []
    for _ in range(int(seconds / 0.004)):
        readings += sensor.read()
        clock.sleep(0.004)
        rig.add(watts * 0.004)
    return readings


def joules(readings: list, source: str, wrap_j: float | None) -> float:
    samples = [r for r in readings if isinstance(r, Sample) and r.source == source]
    curve = from_counter(
        np.array([r.time_ns for r in samples]),
        np.array([r.value for r in samples]) * 1e-6,
        np.zeros(len(samples), np.int64),
        wrap_j,
    )
    assert curve is not None
    return float(np.diff(curve.at(np.array([2_000_000_000, 5_000_000_000])))[0])


def test_counters_that_are_due_together_stay_so(tmp_path: Path) -> None:
    """Their reads are irregular, and yet one wake-up is enough for all."""
    clock = Clock()
    sensor, sources = opened(RaplRig(tmp_path, sockets=2), clock)
    counted = {source.id for source in sources if source.in_total}
    for _ in range(100):
        clock.sleep((sensor.next_read_ns() - clock.now_ns()) / 1e9)
        assert counted <= {r.source for r in sensor.read() if isinstance(r, Sample)}


def test_two_sockets_with_the_same_names_are_two_devices(tmp_path: Path) -> None:
    sensor, sources = opened(RaplRig(tmp_path, sockets=2), Clock())
    assert {s.device for s in sources} == {"cpu0", "cpu1", "dram0", "dram1"}
    assert len({s.id for s in sources}) == 4
    assert all(s.in_total and s.unit == "J" and s.scale == 1e-6 for s in sources)
    sensor.close()
    sensor.close()


def test_a_platform_counter_is_not_added_to_its_packages(tmp_path: Path) -> None:
    _, sources = opened(RaplRig(tmp_path, psys=True), Clock())
    assert {s.device: s.in_total for s in sources}["psys"] is False


def test_energy_over_a_wraparound(tmp_path: Path) -> None:
    rig, clock = RaplRig(tmp_path), Clock()
    rig.set("intel-rapl:0", MAX_UJ - 200_000_000)  # 200 J before it starts again
    sensor, _ = opened(rig, clock)
    readings = drive(sensor, rig, clock, 5.0, 100.0)
    assert not [r for r in readings if isinstance(r, Gap)]
    assert joules(readings, "rapl:intel-rapl:0", MAX_UJ * 1e-6) == pytest.approx(300, rel=0.01)


def test_a_fall_without_a_known_range_is_a_gap(tmp_path: Path) -> None:
    rig, clock = RaplRig(tmp_path, dram=False, wrap_uj=None), Clock()
    rig.set("intel-rapl:0", 900_000_000)
    sensor, _ = opened(rig, clock)
    readings = drive(sensor, rig, clock, 1.0, 50.0)
    rig.set("intel-rapl:0", 5_000_000)
    readings += drive(sensor, rig, clock, 1.0, 50.0)
    gaps = [r for r in readings if isinstance(r, Gap)]
    assert len(gaps) == 1
    assert "anew" in gaps[0].reason
    assert all(r.value > 0 for r in readings if isinstance(r, Sample))


def test_a_restart_is_no_wraparound_and_no_energy(tmp_path: Path) -> None:
    rig, clock = RaplRig(tmp_path, dram=False), Clock()
    rig.set("intel-rapl:0", 50_000_000_000)  # 50 kJ of a range of 262 kJ
    sensor, _ = opened(rig, clock)
    readings = drive(sensor, rig, clock, 3.0, 100.0)
    rig.set("intel-rapl:0", 1_000_000)
    readings += drive(sensor, rig, clock, 3.0, 100.0)
    restarts = [r.end_ns for r in readings if isinstance(r, Gap) and r.reason == RESTARTED]
    assert len(restarts) == 1
    samples = [r for r in readings if isinstance(r, Sample)]
    curve = from_counter(
        np.array([r.time_ns for r in samples]),
        np.array([r.value for r in samples]) * 1e-6,
        np.zeros(len(samples), np.int64),
        MAX_UJ * 1e-6,
        restarts_ns=np.array(restarts),
    )
    assert curve is not None
    assert curve.resets == 1
    assert curve.joules[-1] == pytest.approx(600.0, abs=8.0)


def test_a_vanishing_file_is_a_gap_and_may_come_back(tmp_path: Path) -> None:
    rig, clock = RaplRig(tmp_path, dram=False), Clock()
    sensor, _ = opened(rig, clock)
    readings = drive(sensor, rig, clock, 1.0, 50.0)
    text = rig.zones["intel-rapl:0"].read_text()
    # The kernel takes a file away under an open descriptor: reads of it are empty.
    os.truncate(rig.zones["intel-rapl:0"], 0)
    rig.zones["intel-rapl:0"].unlink()
    for _ in range(100):
        readings += sensor.read()
        clock.sleep(0.05)
    assert [r for r in readings if isinstance(r, Gap)]
    rig.zones["intel-rapl:0"].write_text(text)
    again = drive(sensor, rig, clock, 3.0, 50.0)
    assert [r for r in again if isinstance(r, Sample)]
    assert all(r.value > 0 for r in [*readings, *again] if isinstance(r, Sample))


def test_no_tree_says_so(tmp_path: Path) -> None:
    with pytest.raises(SensorUnavailable, match="no RAPL here"):
        RaplSensor(SensorContext(powercap_root=tmp_path / "nothing")).open()


def test_an_unreadable_tree_names_the_command_that_mends_it(tmp_path: Path) -> None:
    rig = RaplRig(tmp_path)
    for path in rig.zones.values():
        path.chmod(0o400)
    code = f"""
import json, os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[4])!r})
from pathlib import Path
from probe.errors import SensorUnavailable
from probe.sensors import SensorContext
from probe.sensors.rapl import RaplSensor
if os.geteuid() == 0:
    os.setuid(65534)
try:
    RaplSensor(SensorContext(powercap_root=Path({str(rig.root)!r}))).open()
except SensorUnavailable as error:
    print(json.dumps([error.reason, error.remedy]))
"""
    for folder in [tmp_path, *tmp_path.parents][:4]:
        if folder.owner() == "root" and "pytest" in str(folder):
            folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "PermissionError" in done.stderr:
        pytest.skip("the other user cannot see this checkout")
    reason, remedy = json.loads(done.stdout)
    assert "root" in reason
    assert remedy.startswith("sudo chmod -R a+r")
