"""The modelled sensor: the real library, in a process of its own as the recorder is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from probe.model import Provenance, Sample
from probe.sensors import SensorContext
from probe.sensors.codecarbon import CodeCarbonSensor
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

ALONE = """
import json, os, sys, time
from pathlib import Path
from probe.sensors import SensorContext
from probe.sensors.codecarbon import CodeCarbonSensor
from probe.sensors._carbon import carbon_intensity
sensor = CodeCarbonSensor(SensorContext(pids=(os.getpid(),), powercap_root=Path("nothing")))
sources = sensor.open()
carbon_intensity("FRA")
end = time.process_time() + 0.3
while time.process_time() < end: pass
read = {r.source: r.value for r in sensor.read()}
sensor.close()
import codecarbon.core.gpu as gpu
json.dump({
    "read": read, "notes": {s.id: s.note for s in sources},
    "gpus": [gpu.PYNVML_AVAILABLE, gpu.AMDSMI_AVAILABLE, gpu.is_gpu_details_available()],
    "pynvml": "pynvml" in sys.modules or "amdsmi" in sys.modules,
}, open("found.json", "w"))
"""


def alone(folder: Path, env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stored = json.loads((folder / "found.json").read_text())
    (folder / "found.json").unlink()
    return stored


def test_power_of_the_job_without_a_file_a_word_or_a_call_of_nvml(tmp_path: Path) -> None:
    calls = tmp_path / "rig"
    calls.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    rig = NvmlRig(calls, gpus=1, power_w=300.0)
    root = str(Path(__file__).parents[4])
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    stored = alone(work, {**rig.env(), "PYTHONPATH": root, "HOME": str(work), **cache})
    assert stored["gpus"] == [False, False, False] and not stored["pynvml"]
    assert stored["read"]["codecarbon:cpu"] > 0
    assert stored["read"]["codecarbon:ram"] > 0
    assert "the job's CPU time" in stored["notes"]["codecarbon:cpu"]
    assert not list(work.iterdir())  # no emissions.csv, no configuration, no log


@pytest.fixture
def unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer of CodeCarbon is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def sensor_of(tmp_path: Path, pids: tuple[int, ...]) -> CodeCarbonSensor:
    return CodeCarbonSensor(SensorContext(pids=pids, powercap_root=tmp_path))


@pytest.mark.usefixtures("unasked")
def test_two_sockets_have_the_power_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from codecarbon.core import cpu, util

    class Tdp:
        tdp, model = 100.0, "a CPU"

    monkeypatch.setattr(cpu, "TDP", Tdp)
    monkeypatch.setattr(util, "count_physical_cpus", lambda: 2)
    sources = {s.id: s for s in sensor_of(tmp_path, (os.getpid(),)).open()}
    assert "200 W" in sources["codecarbon:cpu"].method
    assert all(s.provenance is Provenance.MODELLED for s in sources.values())


def test_a_job_that_is_gone_models_the_machine(tmp_path: Path) -> None:
    sensor = sensor_of(tmp_path, (2**22 + 1,))
    sources = {s.id: s for s in sensor.open()}
    assert "the whole machine" in sources["codecarbon:cpu"].note
    assert all(isinstance(reading, Sample) for reading in sensor.read())


@pytest.mark.usefixtures("unasked")
def test_an_unknown_processor_has_the_power_of_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines of one name and of several sizes may share a home directory."""
    from codecarbon.core import cpu, util

    monkeypatch.setattr(cpu, "detect_cpu_model", cpu.detect_cpu_model)
    monkeypatch.setattr(util, "count_physical_cpus", lambda: 1)
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Unlisted 9000\n")
    methods = []
    for threads in (2, 64, 2):
        monkeypatch.setattr(cpu, "count_cpus", lambda threads=threads: threads)
        monkeypatch.setattr(util, "count_cpus", lambda threads=threads: threads)
        sensor = CodeCarbonSensor(
            SensorContext(pids=(os.getpid(),), powercap_root=tmp_path, proc_root=tmp_path)
        )
        methods += [s.method for s in sensor.open() if s.id == "codecarbon:cpu"]
    assert ["8 W" in methods[0], "256 W" in methods[1], methods[2] == methods[0]] == [True] * 3


@pytest.mark.usefixtures("unasked")
def test_the_kernel_names_the_processor_and_no_process_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codecarbon.core import cpu, util

    monkeypatch.setattr(cpu, "detect_cpu_model", util.detect_cpu_model)
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: pytest.fail(f"starts {words}"))
    monkeypatch.setattr(util, "count_physical_cpus", lambda: 1)
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2690\n"
    )
    sensor = CodeCarbonSensor(
        SensorContext(pids=(os.getpid(),), powercap_root=tmp_path, proc_root=tmp_path)
    )
    sources = {s.id: s for s in sensor.open()}
    assert sources["codecarbon:cpu"].note.startswith("Intel(R) Xeon(R) CPU E5-2690")
    assert "135 W" in sources["codecarbon:cpu"].method
