"""`make gpu` on the stand-in of a card: each stage leaves a file that says what is so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

pytestmark = pytest.mark.paced


def ask(folder: Path, rig: NvmlRig, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "benchmarks.gpu", "--short", "--rig", str(rig.path)]
    return subprocess.run(
        [sys.executable, *command, "--results", str(folder / "results"), *more],
        cwd=processes.ROOT,
        env=processes.environment(folder / "runs", rig.env()),
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )


def result(folder: Path, stage: str) -> dict[str, Any]:
    (file,) = (folder / "results").glob(f"gpu-*/{stage}.json")
    assert file.stat().st_size < 16 << 20
    return dict(json.loads(file.read_text()))


def test_reads_say_how_the_meters_see_and_a_stage_is_not_run_twice(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=90.0, jitter_s=0.0002)
    rig.set_response(0, delay_s=0.02)
    rig.gpu(0).power_window_ns = 100_000_000
    done = ask(tmp_path, rig, "--stages", "reads")
    assert done.returncode == 0, done.stdout + done.stderr
    stage = result(tmp_path, "reads")
    assert stage["every_ms"] < 5 and stage["short"]
    counter, instant = stage["counter"], stage["instant power"]
    assert counter["period_ms"] == pytest.approx(100, abs=1)
    assert counter["delay_ms"][0] + counter["lag_ms"][0] == pytest.approx(20, abs=4)
    assert counter["kind"] != "part-time"
    assert instant["window_ms"] == pytest.approx(100, abs=5)
    with np.load(next((tmp_path / "results").glob("gpu-*/reads.npz"))) as kept:
        assert kept["reads"].shape[1] == 5 and len(kept["edge_s"]) == len(kept["busy"])
    again = ask(tmp_path, rig, "--stages", "reads")
    assert again.stdout.splitlines()[0].split() == ["reads", "done", "before"]
    # No setting of the card is touched.
    assert not [name for name in rig.functions if "Set" in name and rig.calls(name)]


@pytest.mark.full
def test_a_stage_that_fails_says_why_and_is_tried_again(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=90.0)
    rig.fail("nvmlDeviceGetTotalEnergyConsumption", 3)
    done = ask(tmp_path, rig, "--stages", "calibration")
    assert done.returncode == 1 and "failed:" in done.stdout
    assert "failed" in result(tmp_path, "calibration")
    rig.clear()
    done = ask(tmp_path, rig, "--stages", "calibration")
    assert done.returncode == 0, done.stdout + done.stderr
    assert result(tmp_path, "calibration")["counter_period_s"] == pytest.approx(0.1, rel=0.02)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_stage_runs_on_the_stand_in(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=90.0, jitter_s=0.0002)
    for stages in ("loads,forward_twice,overhead", "models,stacks,several_cards"):
        done = ask(tmp_path, rig, "--stages", stages)
        assert done.returncode == 0, done.stdout + done.stderr
    mixed = {row["phase"]: row for row in result(tmp_path, "loads")["mixed"]}
    assert mixed["matmul"]["status"] == "resolved"
    assert mixed["matmul"]["power_w"] == pytest.approx(500, rel=0.1)
    forward = result(tmp_path, "forward_twice")
    rows = [
        next(row for row in forward[times] if row["phase"] == "forward-alone")
        for times in ("once", "twice")
    ]
    each_j = [row["energy_j"] / row["count"] for row in rows]
    assert each_j[1] / each_j[0] == pytest.approx(2, rel=0.15)
    assert set(result(tmp_path, "models")) >= {"GPT-2", "ResNet-50"}
    assert result(tmp_path, "several_cards")["run"]["ranks"] == 2


def test_without_a_card_it_says_so_in_a_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "no CUDA device" in done.stderr
