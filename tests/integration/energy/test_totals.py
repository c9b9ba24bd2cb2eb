"""Known truth in, known joules out: the NVML and RAPL rigs through the whole pipeline."""

from __future__ import annotations

import functools
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.paced_run import phases_add_up, report_of
from tests.fakes.processes import PLAIN
from tests.fakes.rapl import RaplRig
from tests.fakes.recordings import RecordedRuns, Recording, needs

pytestmark = pytest.mark.paced


def _record_constant(period_s: float, folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=250.0, period_s=period_s)
    waiting = PLAIN.replace(
        "    await_recorder(run)\n    end", '    await_source(run, "codecarbon:ram")\n    end'
    )
    done = processes.run(waiting, folder, "4.0", extra=rig.env())
    assert done.returncode == 0, done.stderr


CONSTANT = {
    period_s: Recording(f"constant-{period_s}", functools.partial(_record_constant, period_s), 4.0)
    for period_s in (0.1, 0.02)
}


@needs(*CONSTANT.values())
@pytest.mark.parametrize("period_s", list(CONSTANT))
def test_constant_power_for_four_seconds_is_a_thousand_joules(
    period_s: float, recorded_runs: RecordedRuns
) -> None:
    report = report_of(recorded_runs[CONSTANT[period_s]])
    duration = report["run"]["duration_s"]
    assert duration >= 4.0
    total = report["total"]
    # What was used before the recorder came is not metered: up to 1 % of the total.
    truth_j = 250.0 * duration
    assert total["energy_j"] == pytest.approx(truth_j, abs=max(period_s * 250.0, 0.01 * truth_j))
    assert total["energy_j_interval"][0] <= 250.0 * duration <= total["energy_j_interval"][1]
    # The modelled CPU stands beside it, not in it.
    modelled = [s for s in report["sources"] if s["provenance"] == "modelled"]
    assert modelled
    assert not any(s["in_total"] for s in modelled)
    assert total["modelled_energy_j"] == pytest.approx(sum(s["energy_j"] for s in modelled))
    assert all(
        r["energy_j_interval"] is None for r in report["phases"] if r["provenance"] == "modelled"
    )
    phases_add_up(report)


def assert_constant_power(report: dict[str, Any], watts: float) -> None:
    """The interval of the total holds the truth, however late the recorder came."""
    truth_j = watts * report["run"]["duration_s"]
    low, high = report["total"]["energy_j_interval"]
    assert low <= truth_j <= high
    assert report["total"]["energy_j"] == pytest.approx(truth_j, rel=0.2)


def _record_hidden_card(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=2, power_w=250.0, period_s=0.1)
    rig.set_power(1, 600.0)
    done = processes.run(PLAIN, folder, "2.0", extra=rig.env() | {"CUDA_VISIBLE_DEVICES": "0"})
    assert done.returncode == 0, done.stderr


HIDDEN_CARD = Recording("hidden-card", _record_hidden_card, seconds=2.0)


@needs(HIDDEN_CARD)
def test_a_card_that_the_job_cannot_see_is_not_counted(recorded_runs: RecordedRuns) -> None:
    report = report_of(recorded_runs[HIDDEN_CARD])
    assert {s["device"] for s in report["sources"] if s["in_total"]} == {"gpu0"}
    assert_constant_power(report, 250.0)


def _record_command(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=250.0, period_s=0.1)
    out = processes.probe(folder, "run", "--", "sleep", "4", extra=rig.env())
    assert out.returncode == 0
    assert out.stdout == ""


COMMAND = Recording("command", _record_command, seconds=4.0)


@needs(COMMAND)
def test_probe_run_measures_a_command_without_torch(recorded_runs: RecordedRuns) -> None:
    report = report_of(recorded_runs[COMMAND])
    assert report["run"]["duration_s"] >= 4.0
    assert_constant_power(report, 250.0)
    phases_add_up(report)


# Prints each phase's true joules: on a busy machine the power changes after its phase began.
LONG_PHASES_LOOP = f"""{processes.AWAIT_RECORDER}
import json
import os
import sys
sys.path.insert(0, {str(processes.ROOT)!r})
import probe
from tests.fakes.nvml import NvmlRig
rig = NvmlRig.attach(os.environ["NVML_RIG"])
joules = dict(hot=0.0, cool=0.0)
drawn = 100.0
with probe.watch() as run:
    await_recorder(run)
    for _ in range(4):
        for name, watts in (("hot", 400.0), ("cool", 100.0)):
            with run.phase(name):
                began = time.perf_counter()
                rig.set_power(0, watts)
                changed = time.perf_counter()
                time.sleep(1.5)
                joules[name] += drawn * (changed - began) + watts * (time.perf_counter() - changed)
            drawn = watts
print(json.dumps(joules))
"""


def _record_long_phases(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=100.0, period_s=0.1)
    done = processes.run(LONG_PHASES_LOOP, folder, extra=rig.env())
    assert done.returncode == 0, done.stderr
    (folder / "true_joules.json").write_text(done.stdout)


LONG_PHASES = Recording("long-phases", _record_long_phases, seconds=12.0)


@needs(LONG_PHASES)
def test_long_phases_get_their_own_energy(recorded_runs: RecordedRuns) -> None:
    folder = recorded_runs[LONG_PHASES]
    rows = {r["phase"]: r for r in report_of(folder)["phases"] if r["device"] == "gpu0"}
    for name, truth in json.loads((folder / "true_joules.json").read_text()).items():
        row = rows[name]
        # Weak where eight changes of power leave the response's shape open: 1 busy run of 12.
        assert row["status"] in ("resolved", "weak")
        assert row["energy_j"] == pytest.approx(truth, rel=0.2)  # idle: 1 to 9 %
        assert row["energy_j_interval"][0] <= truth <= row["energy_j_interval"][1]
        assert row["provenance"] == "estimated"


# Says how long its phase lasted, for a sleep takes longer than asked.
TIMED = (
    processes.AWAIT_RECORDER
    + """
import probe
with probe.watch(name="timed") as run:
    await_recorder(run)
    compute_s = 0.0
    for step in range(80):
        with run.phase("data"):
            time.sleep(0.002)
        begin = time.perf_counter()
        with run.phase("compute"):
            time.sleep(0.01)
        compute_s += time.perf_counter() - begin
print(compute_s)
"""
)


def _record_without_meter(folder: Path) -> None:
    done = processes.run(TIMED, folder)
    assert done.returncode == 0, done.stderr
    (folder / "compute_s").write_text(done.stdout)


WITHOUT_METER = Recording("without-meter", _record_without_meter, seconds=1.0)


@needs(WITHOUT_METER)
def test_without_any_meter_there_are_no_measured_joules_but_times(
    recorded_runs: RecordedRuns,
) -> None:
    folder = recorded_runs[WITHOUT_METER]
    report = report_of(folder)
    assert report["total"]["energy_j"] is None
    assert report["total"]["energy_j_interval"] is None
    compute = next(r for r in report["phases"] if r["phase"] == "compute")
    assert compute["time_s"] == pytest.approx(float((folder / "compute_s").read_text()), rel=0.02)
    assert any("no energy meter" in line for line in report["warnings"])


def _record_sockets(folder: Path) -> None:
    rig = RaplRig(folder, sockets=2, psys=True)
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
        done = processes.run(PLAIN, folder, "3.0", extra={"PROBE_POWERCAP_ROOT": str(rig.root)})
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 0, done.stderr


SOCKETS = Recording("sockets", _record_sockets, seconds=3.0)


@needs(SOCKETS)
def test_rapl_is_measured_and_no_model_stands_beside_it(recorded_runs: RecordedRuns) -> None:
    report = report_of(recorded_runs[SOCKETS])
    # Two packages and two DRAM domains; the platform counter holds the same joules again.
    assert_constant_power(report, 4 * 60.0)
    assert {s["device"] for s in report["sources"] if s["in_total"]} == {
        "cpu0",
        "cpu1",
        "dram0",
        "dram1",
    }
    assert not any(s["provenance"] == "modelled" for s in report["sources"])
    phases_add_up(report)
