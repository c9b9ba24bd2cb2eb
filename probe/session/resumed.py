"""A training that goes on from its last checkpoint: another attempt of the run that was ended.

What a launcher does by itself, when it starts its ranks again, a person does by hand with
``watch(resume=…)``. Both give one run with several attempts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import StoreError
from ..model import RunStatus
from ..store.files import read_fields
from ..store.layout import RUN_FILE, node_name
from ..store.members import read_members
from ..store.new_files import is_own_folder, owner_of_new_files
from ..store.processes import boot_id, is_alive
from ..store.trainings import is_group
from .job import Job


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
