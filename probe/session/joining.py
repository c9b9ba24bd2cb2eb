"""How a process that trains joins the run of the `probe run` above it."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..store.members import read_members
from ..store.processes import is_alive
from ..store.run_fields import StartFields
from ..store.trainings import take_number
from .job import Job
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
