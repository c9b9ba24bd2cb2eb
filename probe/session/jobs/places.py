"""Which of its job's processes this one is, as torchrun, deepspeed, srun and mpirun say.

Only ``srun`` starts tasks: it alone sets SLURM_STEP_ID. A batch script, and a shell that ``salloc``
opened, have SLURM_PROCID=0 and SLURM_NTASKS of the whole job, too, but are one process.
Slurm's names and values were read on version 22.05. Ray's workers are no tasks of the ``srun`` that
started Ray; which of a training's they are stands in torch's variables.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass

RAY_JOB = "RAY_JOB_ID"  # set by Ray in its workers

_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # "4(x2),1": two nodes of four tasks, one of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A process in its job; None is what its launcher does not say."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    nodes: int | None = None


def current_place() -> Place:
    """This process's. What torch's launcher says comes before what started that launcher."""
    if in_ray():
        return _of_torch()
    said: dict[str, int] = {}
    for place in (_of_mpi(), _of_slurm(), _of_torch()):  # the later wins
        said |= {name: value for name, value in asdict(place).items() if value is not None}
    return Place(**said)


def in_ray() -> bool:
    """Whether this process is a worker of Ray."""
    return RAY_JOB in os.environ


def _of_torch() -> Place:
    return Place(
        rank=number("RANK"),
        world_size=number("WORLD_SIZE"),
        local_rank=number("LOCAL_RANK"),
        local_world_size=number("LOCAL_WORLD_SIZE", "LOCAL_SIZE"),  # deepspeed's
        nodes=number("GROUP_WORLD_SIZE", "CROSS_SIZE"),
    )


def _of_slurm() -> Place:
    """The task that this process is, or was started by; nothing where no ``srun`` did."""
    if number("SLURM_STEP_ID") is None:
        return Place()
    return Place(
        rank=number("SLURM_PROCID"),
        world_size=number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=number("SLURM_LOCALID"),
        local_world_size=_local_tasks(),
        nodes=number("SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
    )


def _local_tasks() -> int | None:
    """How many tasks of the step are on this node; None if it does not say."""
    node = number("SLURM_NODEID") or 0
    for tasks, nodes in _TASKS.findall(os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")):
        if node < int(nodes or 1):
            return int(tasks)
        node -= int(nodes or 1)
    return number("SLURM_NTASKS_PER_NODE")


def _of_mpi() -> Place:
    return Place(
        rank=number("OMPI_COMM_WORLD_RANK"),
        world_size=number("OMPI_COMM_WORLD_SIZE"),
        local_rank=number("OMPI_COMM_WORLD_LOCAL_RANK"),
        local_world_size=number("OMPI_COMM_WORLD_LOCAL_SIZE"),
    )


def number(*names: str) -> int | None:
    """The first of these variables that holds a whole number."""
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
