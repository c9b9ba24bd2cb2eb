"""The report of a finished run is made of what the recorder summed up: no sample, no edge is read,
and what it says is what all of them say.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe.analysis.from_samples import AnalysisFromSamples
from probe.analysis.from_summary import AnalysisFromSummary
from probe.analysis.open import open_analysis
from probe.model import Phase
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.paced_run import PACED, agree, phases_add_up, report_of
from tests.fakes.recordings import RecordedRuns, Recording, needs

pytestmark = pytest.mark.paced


def over_time(row: dict[str, Any]) -> list[float]:
    """Joules so far, at fifty instants."""
    joules = np.append(0.0, np.cumsum(row["power_w"]) * row["step_s"])
    ends = np.arange(len(joules)) * row["step_s"]
    return np.interp(np.linspace(0, ends[-1], 50), ends, joules).tolist()


def refused_in(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Device and phase of the rows that have no energy of their own."""
    return [(row["device"], row["phase"]) for row in report["phases"] if row["energy_j"] is None]


def _record(launched: bool, folder: Path) -> None:
    rig = NvmlRig(folder, gpus=2, power_w=60.0, period_s=0.1, jitter_s=0.0002)
    # Scraped, it is gone through every ten seconds instead of every thirty.
    env = rig.env() | {"PROBE_PROMETHEUS": str(processes.free_port()), "CUDA_VISIBLE_DEVICES": "0"}
    script = PACED.read_text(encoding="utf-8")
    if launched:
        path = processes.write(folder / "paced.py", script)
        command = ["run", "--", sys.executable, str(path), "18", "5"]
        done = processes.probe(folder, *command, extra=env)
    else:
        done = processes.run(script, folder, "18", "5", extra=env)
    assert done.returncode == 0, done.stderr


SUMMARISED = {
    launched: Recording(f"summarised-{launched}", functools.partial(_record, launched), 18.0)
    for launched in ([False, True] if os.environ.get("PROVE") else [True])
}


@needs(*SUMMARISED.values())
@pytest.mark.parametrize("launched", list(SUMMARISED))
def test_samples_and_edges_may_be_gone(launched: bool, recorded_runs: RecordedRuns) -> None:
    folder = recorded_runs[SUMMARISED[launched]]
    run = processes.only_run(folder)
    scene = open_analysis(RunReader(run))
    assert isinstance(scene, AnalysisFromSummary)
    sealed, raw = report_of(folder), report_of(folder, "--recompute")
    phases_add_up(sealed)
    assert agree(sealed, raw)
    assert sealed["values"] == raw["values"]
    assert sealed["run"] == raw["run"]
    assert sealed["total"].keys() == raw["total"].keys()
    for key, value in raw["total"].items():
        if value is None:
            assert sealed["total"][key] is None
            continue
        # When a step of the counter happened is reckoned from the reads that are held, which are
        # fewer in a piece: at both ends it is off by part of a bracket, 50 ms here on a busy
        # machine. Energy that was lost or counted twice is a step's at least, 0.5 %.
        assert sealed["total"][key] == pytest.approx(value, rel=1e-3), key
    for row, same in zip(sealed["phases"], raw["phases"], strict=True):
        if row["phase"] == Phase.UNRESOLVED and refused_in(sealed) != refused_in(raw):
            continue  # start-up is refused in one of both: agree() allows that
        assert row["count"] == same["count"]
        assert row["time_s"] == pytest.approx(same["time_s"], abs=1e-6), row
        if row["bounds_j"] and same["bounds_j"]:
            # Each end may be off by such a bracket, too: 50 ms of 300 W. What comes once, at the
            # run's begin, lies between the first reads of the meter: 200 ms.
            off_j = 60.0 if row["count"] <= 1 else 15.0
            assert row["bounds_j"] == pytest.approx(same["bounds_j"], rel=0.1, abs=off_j)
    for row, same in zip(sealed["power"], raw["power"], strict=True):
        # Bins are as long as the meter's period asks for, which may differ in the last digit.
        assert over_time(row) == pytest.approx(over_time(same), rel=0.01, abs=5.0)
    for part in [
        *run.glob("node-*/hot"),
        *run.glob("node-*/cold"),
        *run.glob("rank-*/*old"),
        *run.glob("rank-*/hot"),
    ]:
        shutil.rmtree(part)
    assert report_of(folder) == sealed


def _record_short(folder: Path) -> None:
    rig = NvmlRig(folder, gpus=1, power_w=250.0, period_s=0.1)
    done = processes.run(processes.PLAIN, folder, "1.5", extra=rig.env())
    assert done.returncode == 0, done.stderr


SHORT = Recording("short", _record_short, seconds=1.5)


@needs(SHORT)
def test_a_recorder_that_was_replaced_leaves_it_to_the_raw_data(
    recorded_runs: RecordedRuns,
) -> None:
    folder = recorded_runs[SHORT]
    run = processes.only_run(folder)
    whole = report_of(folder)
    (summary,) = run.glob("node-*/summary.npz")
    summary.write_bytes(summary.read_bytes()[:100])
    assert isinstance(open_analysis(RunReader(run)), AnalysisFromSamples)
    assert report_of(folder)["total"]["energy_j"] == pytest.approx(whole["total"]["energy_j"])
