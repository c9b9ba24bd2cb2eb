"""Tasks of a batch job: a `probe run` in each, as ``srun probe run -- python train.py`` does it.

A task gets the variables that Slurm or Open MPI would set; neither is needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig

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


def report_of_job(tmp_path: Path) -> dict[str, Any]:
    """The report of the only run in ``tmp_path``, as JSON."""
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: RunReader(run).status != "running")
    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    report: dict[str, Any] = json.loads(out.stdout)
    return report


def true_energy(rig: NvmlRig, run: Path, gpus: Iterable[int]) -> float:
    """What these cards drew from the run's begin to its end, J."""
    meta = json.loads((run / "run.json").read_text())
    return sum(rig.true_energy_j(gpu, meta["begin_ns"], meta["end_ns"]) for gpu in gpus)
