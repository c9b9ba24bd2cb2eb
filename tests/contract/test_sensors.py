"""One contract for every sensor that is found, bare and on its rig.

A new sensor is tested from birth: it is found by ``discover_sensors`` and run without
hardware; with a line in ``RIGS`` also on its rig. Each runs in a process of its own,
so that the NVML of the rig is the only one it can meet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from probe.sensors import discover_sensors
from tests.fakes import processes
from tests.fakes.controllers import TOKEN, RedfishService
from tests.fakes.nvml import NvmlRig
from tests.fakes.rapl import RaplRig
from tests.fakes.sysfs_meters import CrayNode, IntelCard, JetsonModule

SENSORS = sorted(discover_sensors())
UNITS = {"J", "W", "B", "B/s", "Hz", "s", "Cel", "ratio", "bitmask"}
HEAVY = ("torch", "pandas", "codecarbon", "pynvml", "psutil", "pyarrow", "numpy")

# Opens one sensor and lives with it for a moment; prints what it saw.
LIFE = (
    """
import dataclasses, json, os, sys, time
from probe.errors import SensorUnavailable
from probe.model import Gap, Sample
from probe.sensors import discover_sensors
from probe.sensors import SensorContext
name, seconds = sys.argv[1], float(sys.argv[2])
kind = discover_sensors()[name]
early = [m for m in {heavy!r} if m in sys.modules]
sensor = kind(SensorContext(pids=(os.getpid(),), ranks={0: os.getpid()}))
seen = {{"early": early, "sources": [], "reason": None, "samples": [], "gaps": [], "late": 0}}
try:
    sources = list(sensor.open())
    seen["sources"] = [dataclasses.asdict(s) for s in sources]
except SensorUnavailable as error:
    seen["reason"] = error.reason
end = time.monotonic() + (seconds if seen["sources"] else 0)
while time.monotonic() < end:
    for reading in sensor.read():
        kind_ = "samples" if isinstance(reading, Sample) else "gaps"
        assert isinstance(reading, (Sample, Gap))
        seen[kind_].append(dataclasses.astuple(reading))
    wait = sensor.next_read_ns() - time.monotonic_ns()
    seen["late"] += wait < -5_000_000
    time.sleep(min(1.0, max(0.0, wait / 1e9)))
seen["absent"] = [dataclasses.asdict(a) for a in sensor.absent]
sensor.close()
sensor.close()
list(sensor.read())
seen["next"] = isinstance(sensor.next_read_ns(), int)
print(json.dumps(seen), file=sys.stderr)
""".replace("{heavy!r}", repr(HEAVY))
    .replace("{{", "{")
    .replace("}}", "}")
)


def live(name: str, tmp_path: Path, extra: dict[str, str], seconds: float) -> dict:
    done = processes.run(LIFE, tmp_path, name, str(seconds), extra=extra)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "a sensor has no business on stdout"
    return json.loads(done.stderr.splitlines()[-1])


def check(seen: dict) -> None:
    assert seen["early"] == [], "importing the module must pull nothing heavy"
    assert seen["sources"] or seen["reason"]
    assert all(a["reason"] and a["what"] for a in seen["absent"])
    ids = [s["id"] for s in seen["sources"]]
    assert len(set(ids)) == len(ids)
    for source in seen["sources"]:
        assert source["unit"] in UNITS
        assert source["quantity"] and source["method"] and source["device"]
        assert source["kind"] in ("counter", "gauge")
        assert source["provenance"] in ("measured", "modelled")
        assert not (source["in_total"] and source["provenance"] == "modelled")
    for source in seen["sources"]:
        samples = [(t, v) for s, t, v, _ in seen["samples"] if s == source["id"]]
        assert samples or [g for g in seen["gaps"] if g[0] == source["id"]], source["id"]
        assert [t for t, _ in samples] == sorted(t for t, _ in samples)
        if source["kind"] == "counter" and source["wrap_raw"] is None:
            assert [v for _, v in samples] == sorted(v for _, v in samples)
    assert {s for s, *_ in seen["samples"]} <= set(ids)


@pytest.mark.parametrize("name", SENSORS)
def test_without_hardware(name: str, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    empty = {"PROBE_POWERCAP_ROOT": none, "PROBE_SYS_ROOT": none, "LD_LIBRARY_PATH": str(tmp_path)}
    check(live(name, tmp_path, empty, 2.5))


@pytest.mark.parametrize("name", [n for n in SENSORS if n.startswith("nvml")])
def test_on_the_nvml_rig(name: str, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=250.0)
    seen = live(name, tmp_path, rig.env(), 1.5)
    check(seen)
    assert seen["samples"]
    assert {s["device"] for s in seen["sources"]} == {"gpu0", "gpu1"}
    assert rig.initialised == 0  # it closed what it opened


def test_on_the_rapl_rig(tmp_path: Path) -> None:
    rig = RaplRig(tmp_path, sockets=2, psys=True)
    seen = live("rapl", tmp_path, {"PROBE_POWERCAP_ROOT": str(rig.root)}, 1.2)
    check(seen)
    assert len(seen["sources"]) == 5
    model = live("codecarbon", tmp_path, {"PROBE_POWERCAP_ROOT": str(rig.root)}, 1.0)
    assert model["reason"], "where RAPL measures, nothing is modelled"


RIGS = {"pm_counters": (CrayNode, 5), "intel_gpu": (IntelCard, 1), "jetson": (JetsonModule, 3)}


@pytest.mark.parametrize("name", sorted(RIGS))
def test_on_a_rig_of_files(name: str, tmp_path: Path) -> None:
    kind, sources = RIGS[name]
    rig = kind(tmp_path)
    none = str(tmp_path / "none")
    seen = live(name, tmp_path, {"PROBE_SYS_ROOT": str(rig.root), "PROBE_POWERCAP_ROOT": none}, 1.0)
    check(seen)
    assert len(seen["sources"]) == sources and seen["samples"]


def test_on_a_redfish_service(tmp_path: Path) -> None:
    with RedfishService() as service:
        given = {"PROBE_REDFISH_URL": service.url, "PROBE_REDFISH_TOKEN": TOKEN}
        seen = live("redfish", tmp_path, given, 1.0)
    check(seen)
    assert [value for _, _, value, _ in seen["samples"]] == [500.0]


ABSENT = ("amdsmi", "intel_gpu", "ipmi", "jetson", "pm_counters", "redfish")


def test_what_is_not_there_costs_nothing(tmp_path: Path) -> None:
    code = (
        "import importlib, json, sys, time; from probe.sensors import SensorContext, "
        "discover_sensors; kinds = discover_sensors(); context = SensorContext()\n"
        f"def absent():\n    for name in {ABSENT}:\n        sensor = kinds[name](context)\n"
        "        try: sensor.open()\n        except Exception as error: pass\n"
        "        else: raise SystemExit(name)\n"
        "before = set(sys.modules); begin = time.process_time(); absent()\n"
        "print(json.dumps([time.process_time() - begin, sorted(set(sys.modules) - before)]))"
    )
    none = str(tmp_path / "none")
    done = processes.run(code, tmp_path, extra={"PROBE_SYS_ROOT": none})
    cpu_s, imported = json.loads(done.stdout)
    assert imported == []
    assert cpu_s < 0.1


def test_the_list_of_sensors_is_complete() -> None:
    assert set(SENSORS) == {
        "amdsmi",
        "codecarbon",
        "host",
        "intel_gpu",
        "ipmi",
        "jetson",
        "nvml_activity",
        "nvml_energy",
        "nvml_power",
        "nvml_telemetry",
        "nvml_utilization",
        "pm_counters",
        "rank_process",
        "rapl",
        "redfish",
    }


def test_a_third_partys_sensor_is_found_and_a_broken_one_only_named(tmp_path: Path) -> None:
    package = tmp_path / "site"
    info = package / "wall_meter-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wall-meter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[probe.sensors]\nwall = wall_meter:Wall\nbroken = wall_broken:Nothing\n"
    )
    (package / "wall_meter.py").write_text(
        "class Wall:\n    name = 'wall'\n    def __init__(self, context):\n"
        "        self.absent, self.warnings = [], []\n    def open(self): return []\n"
        "    def read(self): return []\n    def next_read_ns(self): return 0\n"
        "    def close(self): pass\n"
    )
    code = "from probe.sensors import discover_sensors; print(*sorted(discover_sensors()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=processes.environment(tmp_path, {"PYTHONPATH": f"{processes.ROOT}:{package}"}),
    )
    assert done.returncode == 0, done.stderr
    assert "wall" in done.stdout.split()
    assert "rapl" in done.stdout.split()
