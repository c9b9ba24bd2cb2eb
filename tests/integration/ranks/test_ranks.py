"""Jobs of several ranks on one host: one run, each card once, whoever launches them."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from probe.store import files
from probe.store.members import read_members
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

pytestmark = pytest.mark.paced

RANKS, SECONDS, PERIOD_S = 4, 5.0, 0.1
PROVE = bool(os.environ.get("PROVE"))
KILLS = 10 if PROVE else 1
FEW_STEPS = 5
SCRIPT = str(processes.ROOT / "tests/scripts/train_ranks.py")


def launched(how: str, tmp_path: Path, rig: NvmlRig, *arguments: str) -> str:
    """A job of four ranks by a launcher, to its end; what it printed."""

    port = str(processes.free_port())
    command = {
        "torchrun": [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            str(RANKS),
            "--master-port",
            port,
        ],
        "deepspeed": [
            sys.executable,
            "-m",
            "deepspeed.launcher.runner",
            "--num_gpus",
            str(RANKS),
            "--master_port",
            port,
            "--launcher_args",
            "",
        ],
    }[how]
    done = subprocess.run(
        [*command, SCRIPT, "--seconds", str(SECONDS), *arguments],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs", rig.env() | {"DS_ACCELERATOR": "cpu"}),
        cwd=tmp_path,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def checked(tmp_path: Path, rig: NvmlRig, gpus: int) -> dict[str, Any]:
    """The report of the one run, its totals held against the rig's truth."""
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    report: dict[str, Any] = json.loads(out.stdout)
    assert report["run"]["status"] == "finished"
    assert report["run"]["ranks"] == RANKS
    assert len(list(run.glob("node-*/lease-*"))) == 1, "more than one recorder"
    meta = json.loads((run / "run.json").read_text())
    counted = {
        source["device"]: source["energy_j"] for source in report["sources"] if source["in_total"]
    }
    assert counted.keys() == {f"gpu{i}" for i in range(gpus)}
    for gpu in range(gpus):
        true = rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"])
        seconds = (meta["end_ns"] - meta["begin_ns"]) / 1e9
        assert counted[f"gpu{gpu}"] == pytest.approx(true, abs=PERIOD_S * true / seconds)
        rows = [
            row["energy_j"]
            for row in report["phases"]
            if row["device"] == f"gpu{gpu}" and row["energy_j"] is not None
        ]
        assert math.isclose(math.fsum(rows), counted[f"gpu{gpu}"], rel_tol=1e-9)
    assert report["total"]["energy_j"] == pytest.approx(math.fsum(counted.values()))
    return report


LAUNCHERS = ["torchrun", pytest.param("deepspeed", marks=pytest.mark.full)]


@pytest.mark.full
@pytest.mark.parametrize("how", LAUNCHERS)
def test_eight_cards_of_which_four_are_used(how: str, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=8, power_w=100.0, period_s=PERIOD_S)
    engine = {"torchrun": "ddp", "deepspeed": "zero2"}[how]
    # DDP's timers answer some times a second; fewer than five answers make no mean.
    printed = launched(how, tmp_path, rig, "--engine", engine, "--slow", "2", "--seconds", "8")
    report = checked(tmp_path, rig, gpus=4)
    balance, step_s = report["balance"], report["run"]["duration_s"] / report["run"]["steps"]
    assert balance["slowest"] == 2
    for row in balance["ranks"]:
        if row["rank"] != 2:
            # 15 ms a step, on a busy machine more; never more than the step itself.
            assert 0.005 < row["waiting_s"] < step_s and row["waiting_j"] > 0
    assert "rank 2 is the slowest" in processes.probe(tmp_path, "report", "latest").stdout
    if engine == "ddp":
        for row in report["communication"]:
            assert row["busy_s"] and row["exposed_s"] and row["blocking_s"]
            assert "after the last gradient" in row["method"]
    steps = {int(line.split("STEPS ")[1]) for line in printed.splitlines() if "STEPS " in line}
    assert {report["run"]["steps"]} == steps
    for gpu in range(4):  # each is one rank's: phases are told apart
        rows = {row["phase"]: row for row in report["phases"] if row["device"] == f"gpu{gpu}"}
        assert rows["backward"]["count"] in range(min(steps), max(steps) + 2)
        if engine == "ddp":
            # Its end is waited for, and before the step whether there is another one.
            assert rows["communication"]["count"] == pytest.approx(
                2 * rows["backward"]["count"], abs=2
            )


@pytest.mark.parametrize("how", LAUNCHERS)
def test_two_cards_shared_by_four_ranks(how: str, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    launched(how, tmp_path, rig, "--devices", "2")
    report = checked(tmp_path, rig, gpus=2)
    for gpu in range(2):
        (row,) = (row for row in report["phases"] if row["device"] == f"gpu{gpu}")
        assert row["phase"] == "unattributed"
    assert [row["device"] for row in report["phases"] if row["phase"] == "backward"] == [
        f"rank{rank}" for rank in range(RANKS)
    ]


def test_ranks_that_are_started_again_go_on_in_the_same_run(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "2",
            "--monitor-interval",
            "0.5",
            "--standalone",
            SCRIPT,
            "--engine",
            "none",
            "--seconds",
            "3",
            "--die",
            "2",
            "--save",
            "0.7",
        ],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs", rig.env()),
        cwd=tmp_path,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert report["run"]["status"] == "finished", report["run"]
    assert len(list(run.glob("node-*/lease-*"))) == 1, "the recorder went away between attempts"
    meta = json.loads((run / "run.json").read_text())
    true = [rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"]) for gpu in range(2)]
    assert report["total"]["energy_j"] == pytest.approx(sum(true), rel=0.01)
    attempts = report["attempts"]
    assert [row["attempt"] for row in attempts] == [0, 1, 2]
    for row in attempts:
        ends = [meta["begin_ns"] + round(1e9 * row[name]) for name in ("begin_s", "end_s")]
        spent = sum(rig.true_energy_j(gpu, *ends) for gpu in range(2))
        assert row["energy_j"] == pytest.approx(spent, rel=0.05)
    for row in attempts[:-1]:
        # Since the last checkpoint: there was one 0.7 s after the begin, or later.
        assert 0 < row["lost_s"] < row["end_s"] - row["begin_s"] - 0.7
        assert 0 < row["lost_j"] < row["energy_j"]
        assert "rank 1 died" in row["ended_by"]
    assert attempts[-1]["lost_s"] is None
    restarts = [
        row for row in report["phases"] if row["phase"] == "restart" and row["device"] == "gpu0"
    ]
    assert restarts[0]["count"] == 2
    between = sum(b["begin_s"] - a["end_s"] for a, b in itertools.pairwise(attempts))
    assert restarts[0]["time_s"] == pytest.approx(between, abs=1.0, rel=0.2)
    assert "attempts" in processes.probe(tmp_path, "report", "latest").stdout


def started(tmp_path: Path, rig: NvmlRig, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """A job of two ranks that has trained for a second, and some steps."""
    process = processes.closed_after_test(
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                "2",
                "--standalone",
                "--monitor-interval",
                "0.5",
                SCRIPT,
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=processes.environment(tmp_path / "runs", rig.env()),
            cwd=tmp_path,
        )
    )
    assert process.stdout is not None
    run = Path(process.stdout.readline().split("RUN ")[1].strip())
    assert processes.wait_until(
        lambda: len(read_members(run)) == 2 and "recorder" in files.read_json(run / "run.json"), 30
    )
    time.sleep(1.0)
    assert processes.wait_until(
        lambda: min(len(RunReader(run).steps_ns(rank)) for rank in range(2)) > FEW_STEPS, 30
    )
    return process, run


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_rank_is_killed(seed: int, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    process, run = started(tmp_path, rig, "--seconds", "20")
    time.sleep(random.Random(seed).uniform(0.0, 2.0))
    os.kill(next(m.pid for m in read_members(run) if m.rank == 1), signal.SIGKILL)
    process.wait(timeout=processes.HUNG_S)
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert report["run"]["status"] == "killed"
    assert "rank 1 died" in report["run"]["ended_by"]
    meta = json.loads((run / "run.json").read_text())
    for gpu in range(2):
        counted = next(
            source["energy_j"]
            for source in report["sources"]
            if source["device"] == f"gpu{gpu}" and source["in_total"]
        )
        true = rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"])
        assert counted == pytest.approx(true, rel=0.05)
    steps = [row["steps"] for row in report["ranks"]]
    assert min(steps) > FEW_STEPS and max(steps) - min(steps) <= 1


@pytest.mark.parametrize("seed", range(KILLS))
def test_the_recorder_of_a_job_is_killed(seed: int, tmp_path: Path) -> None:
    """One rank starts another one; nobody's steps are lost, and the hole is a gap."""
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    process, run = started(tmp_path, rig, "--seconds", "7")
    time.sleep(random.Random(seed).uniform(0.0, 1.0))
    os.kill(files.read_json(run / "run.json")["recorder"]["pid"], signal.SIGKILL)
    said, _ = process.communicate(timeout=processes.HUNG_S)
    assert process.returncode == 0
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    assert sorted(path.name for path in run.glob("node-*/lease-*")) == ["lease-1", "lease-2"]
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert report["run"]["status"] == "finished"
    steps = {int(line.split("STEPS ")[1]) for line in said.splitlines() if "STEPS " in line}
    assert {row["steps"] for row in report["ranks"]} == steps
    assert any("recorder was restarted" in line for line in report["warnings"])
    meta = json.loads((run / "run.json").read_text())
    true = sum(rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"]) for gpu in range(2))
    assert report["total"]["energy_j"] == pytest.approx(true, rel=0.03)
