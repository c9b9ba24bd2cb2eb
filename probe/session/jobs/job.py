"""The job that this process belongs to, and its rank in it.

Ranks of one job share one run. They find it by the key of their launcher, without communication.
torchrun's run id is used only if it is unique (it is ``none`` with a fixed master address);
otherwise the launcher's process is the key, which differs between hosts: there the ranks ask the
job's own store (:mod:`probe.session.jobs.clock_sync`). Ranks that their launcher starts again keep
its key: they are another attempt of the same run. A job that its scheduler requeues is a run of its
own: hours may lie between, and others use the cards meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...clock import MACHINE_CLOCK, Clock
from ...model import DeviceRequest, RunStatus
from ...store.files import create_bytes, read_fields
from ...store.layout import RUN_FILE
from ...store.new_files import is_own_folder, owner_of_new_files
from ...store.processes import boot_id, start_ticks
from ...store.untrusted import opened
from .places import RAY_JOB, current_place, in_ray, number
from .tasks import launcher_of

_MOST_FOREIGN = 16  # files of others that a job passes over
_ID_BYTES = 200
_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
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


def current_job(*, joined: bool = False) -> Job:
    """Read the job from the environment that torchrun, deepspeed, srun and mpirun set.

    Args:
        joined: below a `probe run` the process group tells it, too, where ``mp.spawn`` made the
            ranks and no variable says so.
    """
    if joined and (of_group := _of_process_group()) is not None:
        return of_group
    place = current_place()
    rank, world, local = place.rank, place.world_size or 1, place.local_rank
    local_world = place.local_world_size or 1
    attempt = number("TORCHELASTIC_RESTART_COUNT") or 0
    left = max(0, (number("TORCHELASTIC_MAX_RESTARTS") or 0) - attempt)
    if rank is None or (world < 2 and not left and not attempt):
        return Job(key=None, rank=rank or 0, local_rank=local, local_world_size=1, world_size=1)
    nodes = place.nodes or -(-world // local_world)
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


def _of_process_group() -> Job | None:
    """The job of ranks that one process spawned; None where a launcher's variables tell more."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if "RANK" in os.environ or distributed is None or not distributed.is_initialized():
            return None
        rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:  # a build of torch without it
        return None
    if world < 2:
        return None
    parent = os.getppid()
    key = f"{boot_id()}:{parent}:{start_ticks(parent)}"
    return Job(key=key, rank=rank, local_rank=None, local_world_size=1, world_size=world)


def device_request(devices: str | None, job: Job) -> DeviceRequest:
    """What this process may use, before CUDA is initialised."""
    return DeviceRequest(
        devices=devices,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER"),
        local_rank=job.local_rank if job.world_size > 1 else None,
    )


def agree(
    directory: Path,
    key: str,
    proposal: str,
    attempt: int = 0,
    clock: Clock = MACHINE_CLOCK,
    *,
    warn: Callable[[str], None] = lambda line: None,
) -> str:
    """The run id that the first rank of the job proposed. Raises OSError.

    A key may return: a new job with the same key gets a new run; another ``attempt`` of a job that
    did not finish continues its run. Others can guess a key: what does not belong to the owner that
    files of this process get is passed over.

    Args:
        warn: hears in one line of what another user has put there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    owner = owner_of_new_files(directory)
    generation = foreign = 0
    while foreign < _MOST_FOREIGN:
        marker = directory / (f".job-{key}-{generation}" if generation else f".job-{key}")
        create_bytes(marker, proposal.encode())
        chosen = _written_in(marker, owner)
        if chosen is None or _is_foreign(directory / chosen, owner):
            if not foreign:
                warn(
                    f"phasewatt: {marker} was not made by this job's user and is passed over; "
                    "a directory of runs that only you may write to (--dir, PROBE_DIR) is safer"
                )
            foreign += 1
        elif chosen == proposal or _joinable(directory / chosen, marker, attempt, clock.wall_s()):
            return chosen
        generation += 1
    return proposal


def _written_in(marker: Path, owner: int) -> str | None:
    """The run id in a marker; None if it is none, or the marker is not of ``owner``."""
    try:
        with opened(marker, _ID_BYTES, owned=False) as file:
            if os.fstat(file.fileno()).st_uid != owner:
                return None
            text = file.read(_ID_BYTES).decode("ascii")
    except (OSError, ValueError):
        return None
    return text if _RUN_ID.match(text) and ".." not in text else None


def _is_foreign(run: Path, owner: int) -> bool:
    """Whether what has the run's name is not a folder of ``owner``; one may be missing yet."""
    try:
        return not is_own_folder(run, owner)
    except FileNotFoundError:
        return False


def _joinable(run: Path, marker: Path, attempt: int, wall_s: float) -> bool:
    """Whether a rank may join the run; one without a run.json yet is being created."""
    run_file = read_fields(run / RUN_FILE)
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
    if in_ray():  # one process started the workers of all trainings on this host
        training = [os.environ.get(name, "") for name in (RAY_JOB, "MASTER_ADDR", "MASTER_PORT")]
        return f"ray:{':'.join(training)}", True
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        if name in os.environ:
            step = os.environ.get("SLURM_STEP_ID", "")
            restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
            return f"{name}:{os.environ[name]}:{step}:{restarts}", True
    parent = launcher_of(os.getppid())
    return f"{boot_id()}:{parent}:{start_ticks(parent)}", False
