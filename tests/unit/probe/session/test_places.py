"""Which rank a process is, and which batch job it belongs to, by variables of launchers."""

from __future__ import annotations

import os

import pytest

from probe.session.jobs.batch_job import scheduler_fields
from probe.session.jobs.places import Place, current_place

# Of `srun -N2 --ntasks=3`, Slurm 22.05: task 2 on the second node.
TASK = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
}


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = ("SLURM_", "OMPI_", "PBS_", "LSB_", "LOCAL_", "GROUP_", "CROSS_", "TORCHELASTIC_")
    for name in [n for n in os.environ if n.startswith(prefixes) or n in ("RANK", "WORLD_SIZE")]:
        monkeypatch.delenv(name)


def put(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_task_counts_what_its_step_has_not_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, TASK)
    assert current_place() == Place(rank=2, world_size=3, local_rank=0, local_world_size=1, nodes=2)


@pytest.mark.parametrize(
    ("node", "spread", "local"),
    [(0, "2,1", 2), (1, "4(x2),1", 4), (2, "4(x2),1", 1), (5, "4", None)],
)
def test_tasks_per_node(
    monkeypatch: pytest.MonkeyPatch, node: int, spread: str, local: int | None
) -> None:
    put(monkeypatch, TASK | {"SLURM_NODEID": str(node), "SLURM_STEP_TASKS_PER_NODE": spread})
    assert current_place().local_world_size == local


def test_a_batch_script_is_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {name: value for name, value in TASK.items() if "STEP" not in name})
    assert current_place() == Place()


def test_torchrun_inside_a_task_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}
    put(monkeypatch, TASK | ranks | {"GROUP_WORLD_SIZE": "2"})
    assert current_place() == Place(
        rank=9, world_size=16, local_rank=1, local_world_size=8, nodes=2
    )


def test_batch_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scheduler_fields() is None
    put(monkeypatch, {"LSB_JOBID": "5", "LSB_QUEUE": "gpu"})
    assert scheduler_fields() == {"scheduler": "lsf", "job_id": "5", "partition": "gpu"}
    put(monkeypatch, {"PBS_JOBID": "12.head", "PBS_QUEUE": "q" * 1000})
    assert scheduler_fields() == {"scheduler": "pbs", "job_id": "12.head", "partition": "q" * 200}
    array = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ACCOUNT": "ml"}
    put(monkeypatch, TASK | array | {"SLURM_JOB_USER": ""})
    assert scheduler_fields() == {
        "scheduler": "slurm",
        "job_id": "77",
        "account": "ml",
        "array_job_id": "70",
        "array_task_id": "3",
        "step_id": "0",
    }
