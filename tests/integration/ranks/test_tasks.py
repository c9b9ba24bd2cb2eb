"""A `probe run` in each task of a job, as ``srun probe run -- python train.py`` starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

pytestmark = pytest.mark.paced

STEPS, PERIOD_S = 120, 0.1
TRAIN = f"""
import sys, time
import torch
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range({STEPS} if len(sys.argv) < 2 else int(sys.argv[1])):
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if step == 20:
        print("TRAINS", flush=True)
"""
# Of `srun --ntasks=… --nodes=1` of Slurm 22.05.
OF_STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "gpt",
    "SLURM_JOB_ACCOUNT": "ml",
    "SLURM_JOB_PARTITION": "a100",
    "SLURM_JOB_USER": "ann",
    "SLURM_STEP_ID": "0",
    "SLURM_NNODES": "1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_NODEID": "0",
}


def slurm(task: int, tasks: int, **more: str) -> dict[str, str]:
    """What ``srun`` sets for a task."""
    count = str(tasks)
    counts = dict.fromkeys(("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"), count)
    place = {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)}
    return OF_STEP | counts | place | {"SLURM_STEP_TASKS_PER_NODE": count} | more


def mpi(task: int, tasks: int) -> dict[str, str]:
    """What Open MPI's ``mpirun`` sets for a rank."""
    return {
        "OMPI_COMM_WORLD_RANK": str(task),
        "OMPI_COMM_WORLD_SIZE": str(tasks),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(task),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(tasks),
    }


def start(
    tmp_path: Path, variables: Mapping[str, str], *arguments: str, code: str = TRAIN
) -> subprocess.Popen[str]:
    """A task below a `probe run`."""
    script = processes.write(tmp_path / "train.py", code)
    return started(tmp_path, variables, [sys.executable, str(script), *arguments])


def started(
    tmp_path: Path, variables: Mapping[str, str], command: list[str]
) -> subprocess.Popen[str]:
    """A command below a `probe run`."""
    return processes.closed_after_test(
        subprocess.Popen(
            [sys.executable, "-m", "probe", "run", "--", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=processes.environment(tmp_path / "runs", variables),
            cwd=tmp_path,
        )
    )


def printed(tasks: list[subprocess.Popen[str]], code: int = 0) -> list[str]:
    """What each task printed to standard error, once it has ended with this code."""
    texts = []
    for task in tasks:
        _, text = task.communicate(timeout=processes.HUNG_S)
        assert task.returncode == code, text
        texts.append(text)
    return texts


def report_of(tmp_path: Path) -> dict[str, Any]:
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    report: dict[str, Any] = json.loads(out.stdout)
    return report


def true_energy(rig: NvmlRig, run: Path, gpus: int) -> float:
    meta = json.loads((run / "run.json").read_text())
    return sum(rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"]) for gpu in range(gpus))


def test_tasks_of_a_slurm_step_are_one_run_that_counts_each_card_once(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=100.0, period_s=PERIOD_S)
    tasks = [start(tmp_path, rig.env() | slurm(task, 3)) for task in range(3)]
    first, *others = printed(tasks)
    report = report_of(tmp_path)
    run = processes.only_run(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (3, STEPS)
    true = true_energy(rig, run, 2)
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
    report = report_of(tmp_path)
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
            true_energy(rig, run, 1), abs=PERIOD_S * 100, rel=0.03
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
    report = report_of(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (2, STEPS)
    assert {host["host"] for host in report["hosts"]} == {"n0", "n1"}
    assert "-- phasewatt: Slurm job 4711" in first and "-- phasewatt" not in second


def test_a_batch_script_is_one_process_though_its_job_has_several_tasks(tmp_path: Path) -> None:
    variables = {name: value for name, value in slurm(0, 4).items() if "STEP" not in name}
    (text,) = printed([start(tmp_path, variables)])
    report = report_of(tmp_path)
    assert (report["run"]["ranks"], report["run"]["steps"]) == (1, STEPS)
    assert text.strip().startswith("-- phasewatt: Slurm job 4711")


def test_scontrol_is_never_called(tmp_path: Path) -> None:
    called = tmp_path / "called"
    scontrol = processes.write(tmp_path / "scontrol", f"#!/bin/sh\necho $* >> {called}\n")
    scontrol.chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    printed([start(tmp_path, slurm(task, 2) | path) for task in range(2)])
    assert report_of(tmp_path)["total"]["modelled_energy_j"] is not None
    assert not called.exists(), called.read_text()


def test_tasks_in_which_nothing_trains_say_so_once(tmp_path: Path) -> None:
    tasks = [start(tmp_path, slurm(task, 2), code="print('no torch')") for task in range(2)]
    first, second = printed(tasks)
    assert "no PyTorch training was seen" in first and not second
    assert not list((tmp_path / "runs").glob("*/run.json"))


def test_notes_of_tasks_are_removed(tmp_path: Path) -> None:
    variables = slurm(0, 1) | {"SLURM_STEP_NUM_TASKS": "2", "TMPDIR": str(tmp_path)}
    printed([start(tmp_path, variables, "5")])
    assert not list(tmp_path.glob("phasewatt-task-*"))
    assert processes.only_run(tmp_path).is_dir()
