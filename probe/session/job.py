"""The job that this process belongs to, and its rank in it.

Ranks of one job share one run. They find it by the key of their launcher, without communication.
torchrun's run id is used only if it is unique (it is ``none`` with a fixed master address);
otherwise the launcher's process is the key, which differs between hosts: there the ranks ask the
job's own store (:mod:`probe.session.clock_sync`). A job that its launcher restarts, or that is
requeued, keeps its key: it is another attempt of the same run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..clock import MACHINE_CLOCK, Clock
from ..model import DeviceRequest, RunStatus
from ..store.files import create_bytes, read_json
from ..store.layout import RUN_FILE
from ..store.processes import boot_id, start_ticks

_FRESH_S = 60.0  # a recorder refreshes run.json every 5 s; clocks of file servers may be off


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The launcher's view of this process; ``key`` is None for a job of one process.

    ``local_key``: the key differs between the job's hosts. ``attempt`` counts the launcher's
    restarts of its ranks so far, ``attempts_left`` those it would still make.
    """

    key: str | None
    rank: int
    local_rank: int | None
    local_world_size: int
    world_size: int
    nodes: int = 1
    local_key: bool = False
    attempt: int = 0
    attempts_left: int = 0


def current_job() -> Job:
    """Read the job from the environment that torchrun, deepspeed, srun and mpirun set."""
    rank = _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
    world = _number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE") or 1
    local = _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    local_world = (
        _number(
            "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"
        )
        or 1
    )
    attempt = _number("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT") or 0
    left = max(0, (_number("TORCHELASTIC_MAX_RESTARTS") or 0) - attempt)
    if rank is None or (world < 2 and not left and not attempt):
        return Job(key=None, rank=rank or 0, local_rank=local, local_world_size=1, world_size=1)
    nodes = _number("GROUP_WORLD_SIZE", "CROSS_SIZE", "SLURM_NNODES") or -(-world // local_world)
    key, everywhere = _launcher_key()
    return Job(
        key=key,
        rank=rank,
        local_rank=local,
        local_world_size=local_world,
        world_size=world,
        nodes=nodes,
        local_key=nodes > 1 and not everywhere,
        attempt=attempt,
        attempts_left=left,
    )


def device_request(devices: str | None, job: Job) -> DeviceRequest:
    """What this process may use, before CUDA is initialised."""
    return DeviceRequest(
        devices=devices,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER"),
        local_rank=job.local_rank if job.world_size > 1 else None,
    )


def agree(
    directory: Path, key: str, proposal: str, attempt: int = 0, clock: Clock = MACHINE_CLOCK
) -> str:
    """The run id that the first rank of the job proposed. Raises OSError.

    A key may return: a new job with the same key gets a new run; another ``attempt`` of a job that
    did not finish continues its run.
    """
    directory.mkdir(parents=True, exist_ok=True)
    generation = 0
    while True:
        marker = directory / (f".job-{key}-{generation}" if generation else f".job-{key}")
        create_bytes(marker, proposal.encode())
        chosen = marker.read_text()
        if chosen == proposal or _joinable(directory / chosen, marker, attempt, clock.wall_s()):
            return chosen
        generation += 1


def _joinable(run: Path, marker: Path, attempt: int, wall_s: float) -> bool:
    """Whether a rank may join the run; one without a run.json yet is being created."""
    run_file = read_json(run / RUN_FILE)
    try:
        age_s = wall_s - (marker if run_file is None else run / RUN_FILE).stat().st_mtime
    except OSError:
        return False
    if run_file is None:
        return age_s < _FRESH_S
    status = run_file.get("status")
    alive = status == RunStatus.RUNNING and age_s < _FRESH_S
    return alive or (attempt > 0 and status != RunStatus.FINISHED)


def _launcher_key() -> tuple[str, bool]:
    """(key of the launcher, whether it is the same on all hosts of the job)."""
    torch_id = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    if torch_id != "none":
        return f"torchelastic:{torch_id}", True
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if name in os.environ:
            step = os.environ.get("SLURM_STEP_ID", "")
            return f"{name}:{os.environ[name]}:{step}", True
    parent = os.getppid()
    return f"{boot_id()}:{parent}:{start_ticks(parent)}", False


def _number(*names: str) -> int | None:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
