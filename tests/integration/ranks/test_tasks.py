"""A `probe run` in each task of a job, as ``srun probe run -- python train.py`` starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.batch_tasks import (
    PERIOD_S,
    STEPS,
    TRAIN,
    mpi,
    printed,
    report_of_job,
    slurm,
    start,
    started,
    true_energy,
)
from tests.fakes.nvml import NvmlRig

pytestmark = pytest.mark.paced


def test_tasks_of_a_slurm_step_are_one_run_that_counts_each_card_once(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    tasks = [start(tmp_path, rig.env() | slurm(task, 3)) for task in range(3)]
    first, *others = printed(tasks)
    report = report_of_job(tmp_path)
    run = processes.only_run(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (3, STEPS)
    true = true_energy(rig, run, range(2))
    assert report["total"]["energy_j"] == pytest.approx(true, abs=2 * PERIOD_S * 100)
    # The log of the job: one block, by the first task.
    block = first.strip().splitlines()
    assert 5 <= len(block) <= 8, first
    assert block[0] == "-- phasewatt: Slurm job 4711 · gpt · ml · a100"
    assert block[-1] == f"probe report {run}"
    assert "finished" in block[-2] and "3 ranks" in block[-2]
    assert re.search(r"\d ± [\d.]+ k?J", first), first
    assert [text.strip() for text in others] == ["", ""]


def test_ranks_of_mpirun_are_one_run(tmp_path: Path) -> None:
    tasks = [start(tmp_path, mpi(task, 2)) for task in range(2)]
    first, second = printed(tasks)
    report = report_of_job(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (2, STEPS)
    assert "again          probe report" in first and not second.strip()


def test_a_job_that_is_requeued_is_a_run_of_its_own_with_energy_of_its_own(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=100.0, period_s=PERIOD_S)
    tasks = [start(tmp_path, rig.env() | slurm(task, 2), "100000") for task in range(2)]
    for task in tasks:
        assert task.stdout is not None and task.stdout.readline() == "TRAINS\n"
    for task in tasks:
        task.send_signal(signal.SIGTERM)
    first, second = printed(tasks, code=-signal.SIGTERM)
    assert "killed" in first and "Slurm job 4711" in first and not second.strip()
    before = processes.only_run(tmp_path)
    more = {"SLURM_RESTART_COUNT": "1"}
    printed([start(tmp_path, rig.env() | slurm(task, 2, **more)) for task in range(2)])
    rows = json.loads(processes.probe(tmp_path, "ls", "--json").stdout)
    assert (rows[0]["status"], rows[0]["steps"]) == ("finished", STEPS)
    assert [row["id"] for row in rows][1:] == [before.name]
    for row in rows:
        run = tmp_path / "runs" / row["id"]
        assert row["energy_j"] == pytest.approx(
            true_energy(rig, run, [0]), abs=PERIOD_S * 100, rel=0.03
        )


def test_torchrun_in_the_task_of_each_node_is_one_run(tmp_path: Path) -> None:
    processes.write(tmp_path / "train.py", TRAIN)
    port = str(processes.free_port())
    tasks = []
    for node in range(2):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        torchrun += ["--nproc-per-node", "1", "--node-rank", str(node)]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", port, "train.py"]
        variables = slurm(node, 2, PROBE_NODE=f"n{node}", SLURM_NODEID=str(node))
        tasks.append(started(tmp_path, variables, torchrun))
    first, second = printed(tasks)
    report = report_of_job(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (2, STEPS)
    assert {host["host"] for host in report["hosts"]} == {"n0", "n1"}
    assert "-- phasewatt: Slurm job 4711" in first and "-- phasewatt" not in second
    assert "finished" in first.strip().splitlines()[-2]  # on both hosts


@pytest.mark.full
def test_a_batch_script_is_one_process_though_its_job_has_several_tasks(tmp_path: Path) -> None:
    variables = {name: value for name, value in slurm(0, 4).items() if "STEP" not in name}
    (text,) = printed([start(tmp_path, variables)])
    report = report_of_job(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (1, STEPS)
    assert text.strip().startswith("-- phasewatt: Slurm job 4711")


@pytest.mark.full
def test_scontrol_is_never_called(tmp_path: Path) -> None:
    called = tmp_path / "called"
    scontrol = processes.write(tmp_path / "scontrol", f"#!/bin/sh\necho $* >> {called}\n")
    scontrol.chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    printed([start(tmp_path, slurm(task, 2) | path) for task in range(2)])
    assert report_of_job(tmp_path)["total"]["modelled_energy_j"] is not None
    assert not called.exists(), called.read_text()


def test_tasks_in_which_nothing_trains_say_so_once(tmp_path: Path) -> None:
    tasks = [start(tmp_path, slurm(task, 2), code="print('no torch')") for task in range(2)]
    first, second = printed(tasks)
    assert "no PyTorch training was seen" in first and not second
    assert not list((tmp_path / "runs").glob("*/run.json"))


@pytest.mark.full
def test_notes_of_tasks_are_removed(tmp_path: Path) -> None:
    variables = slurm(0, 1) | {"SLURM_STEP_NUM_TASKS": "2", "TMPDIR": str(tmp_path)}
    printed([start(tmp_path, variables, "5")])
    assert not list(tmp_path.glob("phasewatt-task-*"))
    assert processes.only_run(tmp_path).is_dir()
