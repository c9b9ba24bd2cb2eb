"""How a process that trains joins a run: that of the `probe run` above it, or one that was ended.

A training that goes on from its last checkpoint is another attempt of its run. What a launcher does
by itself, when it starts its ranks again, a person does by hand with ``watch(resume=…)``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..model import RunStatus
from ..store.files import read_fields
from ..store.layout import RUN_FILE, node_name
from ..store.members import read_members
from ..store.new_files import is_own_folder, owner_of_new_files
from ..store.processes import boot_id, is_alive
from ..store.run_fields import StartFields
from ..store.trainings import is_group, take_number
from .jobs.job import Job
from .names import run_name
from .options import WatchOptions


@dataclass(frozen=True, slots=True)
class Joined:
    """Which training of the run this process is; ``launcher`` (pid, start) is `probe run`."""

    pid: int
    run: Path
    number: int
    launcher: tuple[int, int] | None

    def looked_after(self) -> bool:
        """Whether the launcher lives, which sees to it that the run is sealed."""
        return self.launcher is not None and is_alive(*self.launcher)


_joined: Joined | None = None


def join(run: Path, job: Job, options: WatchOptions) -> Joined:
    """Take this process's number, once: whatever a process trains is one training.

    Raises:
        StoreError: the run cannot be written.
    """
    global _joined
    if _joined is not None and (_joined.pid, _joined.run) == (os.getpid(), run):
        return _joined
    key = None if job.key is None else hashlib.sha256(job.key.encode()).hexdigest()[:12]
    fields: StartFields = {
        "name": options.name or run_name(sys.argv[0]),
        "process": process_name() or None,
        "config": options.config,
        "data": options.data or "unknown",
        "target": options.target,
    }
    number = take_number(run, key=key, rank=job.rank, attempt=job.attempt, fields=fields)
    launchers = [m for m in read_members(run) if m.role == "launcher"]
    launcher = (launchers[0].pid, launchers[0].start_ticks) if launchers else None
    _joined = Joined(os.getpid(), run, number, launcher)
    return _joined


def process_name() -> str:
    """What multiprocessing calls this process; empty in one that it did not start."""
    process = _child()
    return str(process.name) if process is not None else ""


def ended_by_parent() -> bool:
    """Whether it is a daemonic child, as a pool's workers: its parent terminates it in the end."""
    process = _child()
    return process is not None and bool(process.daemon)


def _child() -> Any:
    module = sys.modules.get("multiprocessing.process")
    if module is None or module.parent_process() is None:
        return None
    return module.current_process()


def continued(run: Path, job: Job) -> Job:
    """The job as the next attempt of a run.

    Ranks that join the same attempt one after the other agree: only members that have ended count
    as attempts before.

    Raises:
        StoreError: the run cannot be continued; one line says why.
    """
    try:
        own = is_own_folder(run, owner_of_new_files(run.parent))
    except OSError:
        own = False
    meta = read_fields(run / RUN_FILE) if own else None
    if meta is None:
        raise StoreError(f"{run} is no run of yours")
    if meta.get("status") == RunStatus.FINISHED:
        raise StoreError(f"{run.name} has finished")
    if is_group(run):
        raise StoreError(f"{run.name} is a command with several trainings")
    ranks = [member for member in read_members(run) if member.role == "rank"]
    if any(member.boot_id != boot_id() or member.host != node_name() for member in ranks):
        raise StoreError(f"{run.name} was recorded on another machine, or before this one started")
    before = [m.attempt for m in ranks if not is_alive(m.pid, m.start_ticks)]
    if not before:
        raise StoreError(f"{run.name} still goes on")
    return replace(job, attempt=max(before) + 1)
