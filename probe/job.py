"""Which job does this process belong to, and as which rank?

Ranks of one job share one run. They find it without talking: through the key of
their launcher. torchrun's run id counts only if it is unique (it is ``none`` with a
fixed master address), else the launcher's process does.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from .model import DeviceRequest
from .store.files import temporary_beside
from .store.processes import boot_id, start_ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The launcher's view of this process; ``key`` is None for a job of one process."""

    key: str | None
    rank: int
    local_rank: int | None
    local_world_size: int
    world_size: int


def current_job() -> Job:
    """Read from the environment that torchrun, deepspeed, srun and mpirun set."""
    rank = _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
    world = _number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE") or 1
    local = _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    local_world = _number("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE") or 1
    if rank is None or world < 2:
        return Job(key=None, rank=rank or 0, local_rank=local, local_world_size=1, world_size=1)
    return Job(key=_launcher_key(), rank=rank, local_rank=local,
               local_world_size=local_world, world_size=world)


def device_request(devices: str | None, job: Job) -> DeviceRequest:
    """What this process may use, before CUDA is initialised."""
    return DeviceRequest(
        devices=devices,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER"),
        local_rank=job.local_rank if job.world_size > 1 else None,
    )


def agree(directory: Path, key: str, proposal: str) -> str:
    """The run id that the first rank of the job proposed. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    marker = directory / f".job-{key}"
    temporary = temporary_beside(marker)
    temporary.write_text(proposal)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, marker)  # atomic, with its content
    finally:
        os.unlink(temporary)
    return marker.read_text()


def _launcher_key() -> str:
    torch_id = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if torch_id != "none":
        return f"torchelastic:{torch_id}:{restart}"
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if name in os.environ:
            step = os.environ.get("SLURM_STEP_ID", "")
            return f"{name}:{os.environ[name]}:{step}:{restart}"
    parent = os.getppid()
    return f"{boot_id()}:{parent}:{start_ticks(parent)}:{restart}"


def _number(*names: str) -> int | None:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
