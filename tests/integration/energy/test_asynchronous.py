"""A device that runs behind its host: joules go to the phase whose work burnt them, not to the one
in which the host waited, and the recorder follows that clock, too.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from probe.analysis.from_summary import AnalysisFromSummary
from probe.analysis.open import open_analysis
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.nvml_calibration import calibrated
from tests.fakes.paced_run import agree, phases_add_up, report_of, rig_of, twice_as_wide
from tests.fakes.recordings import RecordedRuns, Recording, needs
from tests.scripts import SCRIPTS
from tests.scripts.train_async_device import IDLE_W, WORK

pytestmark = pytest.mark.paced


def _record(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=IDLE_W, period_s=0.1, jitter_s=0.0002)
    script = (SCRIPTS / "train_async_device.py").read_text(encoding="utf-8")
    # Scraped, it is gone through every ten seconds instead of every thirty.
    env = (
        rig.env()
        | calibrated(rig, folder / "calibration")
        | {"PROBE_PROMETHEUS": str(processes.free_port())}
    )
    done = processes.run(script, folder, "25", "3", extra=env)
    assert done.returncode == 0, done.stderr


ASYNCHRONOUS = Recording("asynchronous", _record, seconds=25.0)


@needs(ASYNCHRONOUS)
def test_joules_go_to_the_work_and_not_to_the_wait(recorded_runs: RecordedRuns) -> None:
    folder = recorded_runs[ASYNCHRONOUS]
    rig = rig_of(folder)
    tape = rig.gpu(0).tape[: rig.gpu(0).tape_count]
    busy_s = dict.fromkeys(WORK, 0.0)
    names = {watts: name for name, (_, watts) in WORK.items()}
    for change, next_change in itertools.pairwise(tape):
        if change.watts in names:
            busy_s[names[change.watts]] += (next_change.time_ns - change.time_ns) / 1e9

    run = processes.only_run(folder)
    scene = open_analysis(RunReader(run))
    assert isinstance(scene, AnalysisFromSummary) and scene.on_device
    report = report_of(folder)
    again = report_of(folder, "--recompute")
    phases_add_up(report)
    assert agree(report, again)
    assert not any("no device timestamps" in line for line in report["warnings"])
    rows = {row["phase"]: row for row in report["phases"] if row["device"] == "gpu0"}
    for name, (_, watts) in WORK.items():
        row, truth_j = rows[name], busy_s[name] * watts
        # On a busy machine the device's thread waits inside of phases; the host's are far shorter.
        assert row["time_s"] == pytest.approx(busy_s[name], rel=0.05, abs=0.003 * row["count"])
        if row["status"] == "not_identifiable":
            assert name != "backward"  # on a busy machine the shorter two may be refused
        else:
            low, high = twice_as_wide(row["energy_j_interval"])
            assert low <= truth_j <= high or row["energy_j"] == pytest.approx(truth_j, rel=0.05)
    # While the host waits for data the device has nothing to do.
    row = rows["data"]
    low, high = twice_as_wide(row["energy_j_interval"])
    assert low <= IDLE_W * row["time_s"] <= high or row["power_w"] == pytest.approx(IDLE_W, rel=0.1)
    assert row["power_w"] < 0.6 * min(watts for _, watts in WORK.values())
