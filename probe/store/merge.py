"""Merge the runs that the hosts of one job recorded apart because they share no file system.

Everything goes into the run of rank 0's host. Hosts that are in it already are skipped, so a merge
may be repeated for further parts. A part is copied under a temporary name and then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreError
from ..model import RunStatus
from . import files, layout
from .copy_folder import copy_folder
from .members import read_members
from .new_files import make_folder_here, owner_of_new_files
from .reader import RunReader
from .untrusted import is_trusted_folder


@dataclass(frozen=True, slots=True)
class Merged:
    """The job's run; hosts that were added, that were in it already; files that were not copied."""

    run: Path
    joined: list[str]
    present: list[str]
    left_out: list[str]


def merge(parts: Sequence[Path]) -> Merged:
    """Merge parts of a job.

    Raises:
        StoreError: not parts of one job, one of them goes on, or the disk refuses.
    """
    readers = [RunReader(part) for part in parts]
    jobs = {str(reader.meta.get("job") or reader.id) for reader in readers}
    if len(jobs) > 1:
        raise StoreError(f"these are not parts of one job: {', '.join(sorted(jobs))}")
    for reader in readers:
        if reader.status is RunStatus.RUNNING:
            raise StoreError(f"{reader.path} is still going on: merge it when it has ended")
    main = min(readers, key=lambda reader: min(reader.ranks(), default=1 << 30))
    if 0 not in main.ranks():
        raise StoreError("rank 0 is in none of them: name the run of its host, too")
    _check_owner(main.path)
    joined: list[str] = []
    present: list[str] = []
    left_out: list[str] = []
    for reader in readers:
        if reader is main:
            continue
        for node in (path.name[5:] for path in reader.nodes()):
            try:
                skipped = _join(reader, node, main.path)
                (present if skipped is None else joined).append(node)
                left_out += skipped or []
            except OSError as error:
                raise StoreError(
                    f"cannot join {reader.path} to {main.path}: {error.strerror or error}"
                ) from None
        if reader.path.parent == main.path.parent:
            # Else a list of both would show the joules of this part twice.
            files.write_json(reader.path / layout.MERGED, {"into": main.id})
    return Merged(main.path, joined, present, left_out)


def _check_owner(run: Path) -> None:
    """Raise StoreError if what this process adds to a run would not count as the run's."""
    owner = os.stat(run).st_uid
    try:
        owner_here = owner_of_new_files(run)
    except OSError as error:
        raise StoreError(f"cannot write to {run}: {error.strerror or error}") from None
    if owner_here not in (0, owner):
        raise StoreError(f"{run} belongs to another user: copy it and merge into the copy")


def _join(part: RunReader, node: str, main: Path) -> list[str] | None:
    """Copy a host's part into the run; None if the run has that host already.

    Returns what was left out: links and special files, and what is not of the owner of the part.
    """
    there = layout.node_dir(main, node)
    if os.path.lexists(there):
        return None
    members = layout.members_dir(main)
    make_folder_here(members)
    left_out: list[str] = []
    temporary = files.temporary_beside(there)
    try:
        copy_folder(layout.node_dir(part.path, node), temporary, left_out)
        if part.meta.get("host") == node:
            for folder in part.path.glob("rank-*"):
                if is_trusted_folder(folder):
                    copy_folder(folder, temporary / folder.name, left_out)
                else:
                    left_out.append(str(folder))
            files.write_json(temporary / "node.json", part.meta, checked=True)
        for member in read_members(part.path):
            if member.host == node:
                member.write(main)
        temporary.rename(there)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return left_out
