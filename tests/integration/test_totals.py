"""Known truth in, known joules out: the NVML and RAPL rigs through the whole pipeline."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest

from tests.fakes.nvml import NvmlRig
from tests.fakes.rapl import RaplRig

from ..fakes import processes
from ..fakes.processes import PLAIN

pytestmark = pytest.mark.alone


def report_of(tmp_path: Path) -> dict:  # type: ignore[type-arg]
    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("period_s", [0.1, 0.02])
def test_constant_power_for_four_seconds_is_a_thousand_joules(
    period_s: float, tmp_path: Path
) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=period_s)
    result = processes.run(PLAIN, tmp_path, "4.0", extra=rig.env())
    assert result.returncode == 0, result.stderr
    report = report_of(tmp_path)
    duration = report["run"]["duration_s"]
    assert duration == pytest.approx(4.0, abs=0.3)
    total = report["total"]
    assert total["energy_j"] == pytest.approx(250.0 * duration, abs=period_s * 250.0)
    assert total["energy_j_interval"][0] <= 250.0 * duration <= total["energy_j_interval"][1]
    # The modelled CPU stands beside it, not in it.
    modelled = [s for s in report["sources"] if s["provenance"] == "modelled"]
    assert modelled
    assert not any(s["in_total"] for s in modelled)
    assert total["modelled_energy_j"] == pytest.approx(sum(s["energy_j"] for s in modelled))
    assert all(
        r["energy_j_interval"] is None for r in report["phases"] if r["provenance"] == "modelled"
    )
    closes(report)


def closes(report: dict) -> None:  # type: ignore[type-arg]
    """Per device the rows of ``phases`` add up to the device's energy."""
    for source in report["sources"]:
        rows = [
            r["energy_j"]
            for r in report["phases"]
            if r["device"] == source["device"] and r["energy_j"] is not None
        ]
        if source["in_total"]:
            assert math.isclose(math.fsum(rows), source["energy_j"], rel_tol=1e-9)


def test_a_card_that_the_job_cannot_see_is_not_counted(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=250.0, period_s=0.1)
    rig.set_power(1, 600.0)
    result = processes.run(PLAIN, tmp_path, "2.0", extra=rig.env() | {"CUDA_VISIBLE_DEVICES": "0"})
    assert result.returncode == 0, result.stderr
    report = report_of(tmp_path)
    assert {s["device"] for s in report["sources"] if s["in_total"]} == {"gpu0"}
    assert report["total"]["energy_j"] == pytest.approx(250 * report["run"]["duration_s"], abs=25)


def test_probe_run_measures_a_command_without_torch(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    out = processes.probe(tmp_path, "run", "--", "sleep", "2", extra=rig.env())
    assert out.returncode == 0
    assert out.stdout == ""
    report = report_of(tmp_path)
    assert report["total"]["energy_j"] == pytest.approx(250 * report["run"]["duration_s"], abs=25)
    assert report["run"]["duration_s"] == pytest.approx(2.0, abs=0.3)
    closes(report)


def test_long_phases_get_their_own_energy(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=100.0, period_s=0.1)
    script = f"""
    import sys, time
    sys.path.insert(0, {str(processes.ROOT)!r})
    import probe
    from tests.fakes.nvml import NvmlRig
    rig = NvmlRig.attach(__import__("os").environ["NVML_RIG"])
    with probe.watch() as run:
        for _ in range(2):
            with run.phase("hot"):
                rig.set_power(0, 400.0)
                time.sleep(1.5)
            with run.phase("cool"):
                rig.set_power(0, 100.0)
                time.sleep(1.5)
    """
    result = processes.run(script, tmp_path, extra=rig.env())
    assert result.returncode == 0, result.stderr
    rows = {r["phase"]: r for r in report_of(tmp_path)["phases"] if r["device"] == "gpu0"}
    for name, watts in (("hot", 400.0), ("cool", 100.0)):
        row = rows[name]
        truth = watts * row["time_s"]
        assert row["energy_j"] == pytest.approx(truth, rel=0.1, abs=40)
        assert row["energy_j_interval"][0] <= truth <= row["energy_j_interval"][1]
        assert row["provenance"] == "estimated"
        assert row["status"] == "resolved"


def test_without_any_meter_there_are_no_measured_joules_but_times(tmp_path: Path) -> None:
    result = processes.run(PLAIN, tmp_path, "1.0")
    assert result.returncode == 0, result.stderr
    report = report_of(tmp_path)
    assert report["total"]["energy_j"] is None
    assert report["total"]["energy_j_interval"] is None
    compute = next(r for r in report["phases"] if r["phase"] == "compute")
    assert compute["time_s"] == pytest.approx(0.85, abs=0.2)
    assert any("no energy meter" in line for line in report["warnings"])


def test_rapl_is_measured_and_no_model_stands_beside_it(tmp_path: Path) -> None:
    rig = RaplRig(tmp_path, sockets=2, psys=True)
    stop = threading.Event()

    def draw() -> None:
        """60 W in every domain."""
        last = time.monotonic()
        while not stop.wait(0.01):
            now = time.monotonic()
            rig.add(60.0 * (now - last))
            last = now

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        result = processes.run(PLAIN, tmp_path, "3.0", extra={"PROBE_POWERCAP_ROOT": str(rig.root)})
    finally:
        stop.set()
        thread.join()
    assert result.returncode == 0, result.stderr
    report = report_of(tmp_path)
    duration = report["run"]["duration_s"]
    # Two packages and two DRAM domains; the platform counter holds the same joules again.
    assert report["total"]["energy_j"] == pytest.approx(4 * 60.0 * duration, rel=0.08)
    assert {s["device"] for s in report["sources"] if s["in_total"]} == {
        "cpu0",
        "cpu1",
        "dram0",
        "dram1",
    }
    assert not any(s["provenance"] == "modelled" for s in report["sources"])
    closes(report)
