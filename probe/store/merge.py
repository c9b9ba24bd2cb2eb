"""Merge the runs that the hosts of one job recorded apart because they share no file system.

Everything goes into the run of rank 0's host. Hosts that are in it already are skipped, so a merge
may be repeated for further parts. A part is copied under a temporary name and then renamed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ..errors import StoreError
from ..model import RunStatus
from . import files, layout
from .members import read_members
from .reader import RunReader


def merge(parts: Sequence[Path]) -> tuple[Path, list[str], list[str]]:
    """Merge parts of a job; (the job's run, hosts that were added, hosts that were in it already).

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
    joined: list[str] = []
    present: list[str] = []
    for reader in readers:
        if reader is main:
            continue
        for node in (path.name[5:] for path in reader.nodes()):
            try:
                (joined if _join(reader, node, main.path) else present).append(node)
            except OSError as error:
                raise StoreError(
                    f"cannot join {reader.path} to {main.path}: {error.strerror or error}"
                ) from None
        if reader.path.parent == main.path.parent:
            # Else a list of both would show the joules of this part twice.
            files.write_json(reader.path / layout.MERGED, {"into": main.id})
    return main.path, joined, present


def _join(part: RunReader, node: str, main: Path) -> bool:
    """Copy a host's part into the run; False if the run has that host already."""
    there = layout.node_dir(main, node)
    if there.exists():
        return False
    temporary = files.temporary_beside(there)
    shutil.copytree(layout.node_dir(part.path, node), temporary)
    if part.meta.get("host") == node:
        for folder in part.path.glob("rank-*"):
            shutil.copytree(folder, temporary / folder.name)
        files.write_json(temporary / "node.json", part.meta)
    for member in read_members(part.path):
        if member.host == node:
            member.write(main)
    temporary.rename(there)
    return True
