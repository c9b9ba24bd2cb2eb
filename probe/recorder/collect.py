"""Rings that dead processes left: what was not drained goes into the run, then they are removed.

A launcher that kills the whole job, its recorder too, leaves some megabytes of memory per rank, and
the last edges in it. The next command that reads the run and may write it collects them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from ..clock import MACHINE_CLOCK
from ..errors import StoreError
from ..ring.reader import RingReader
from ..store.layout import RUN_FILE, lease_path, node_name
from ..store.members import Member, read_members
from ..store.processes import boot_id, is_alive
from ..store.segments import seal_segment
from ..units import NS_PER_S
from .drain import RingDrain
from .pipeline.storage import StorageStage
from .spawn import claim, current_epoch, sign, signed

_UNSIGNED_S = 60.0  # a recorder that has not signed its lease by then is no more
_UNUSED_S = 60.0  # a recorder drains its rings more often; its process may be in another container


def collect(run: Path) -> int:
    """Move undrained edges of a run whose processes are all dead into its directory.

    Returns:
        How many rings were removed; 0 where something lives, or another process collects.

    Raises:
        OSError: the run cannot be written; the rings stay.
    """
    members = [
        member
        for member in read_members(run)
        if member.host == node_name() and member.boot_id == boot_id()
    ]
    if not any(member.ring_paths(run) for member in members) or _lives(run, members):
        return 0
    epoch = current_epoch(run) + 1
    if not claim(run, epoch):
        return 0
    sign(run, epoch)
    storage = StorageStage(run, epoch, MACHINE_CLOCK)
    removed = 0
    for member in members:
        for place, path in enumerate(member.ring_paths(run)):
            with contextlib.suppress(StoreError):
                removed += _collect(run, epoch, member, path, storage, main=place == 0)
    storage.flush()
    return removed


def abandoned(folder: Path) -> list[tuple[Path, Path | None]]:
    """Find the rings that this user's dead processes left, and that no recorder uses any more.

    A ring counts as used for a minute after it was made or drained last.

    Returns:
        For each ring its path and the directory of its run; None if that run does not exist.
    """
    rings = []
    for path in sorted(folder.glob(f"phasewatt-{os.getuid()}-*.ring")):
        with contextlib.suppress(StoreError, OSError):
            status = path.lstat()
            ring = RingReader(path, read_only=True)
            pid, ticks, run, drained_ns = ring.pid, ring.start_ticks, ring.run, ring.heartbeat_ns
            ring.close()
            unused_s = min(
                time.time() - status.st_mtime, (MACHINE_CLOCK.now_ns() - drained_ns) / NS_PER_S
            )
            if status.st_uid == os.getuid() and unused_s > _UNUSED_S and not is_alive(pid, ticks):
                is_there = run is not None and (run / RUN_FILE).is_file()
                rings.append((path, run if is_there else None))
    return rings


def _lives(run: Path, members: Iterable[Member]) -> bool:
    """Whether a process of the job, its launcher or its recorder lives or may come."""
    if any(member.alive() or member.starts_again() for member in members):
        return True
    epoch = current_epoch(run)
    recorder = signed(run, epoch)
    if recorder is not None:
        return is_alive(*recorder)
    with contextlib.suppress(OSError):
        return time.time() - lease_path(run, epoch).stat().st_mtime < _UNSIGNED_S
    return False


def _collect(
    run: Path, epoch: int, member: Member, path: Path, storage: StorageStage, *, main: bool
) -> int:
    drain = RingDrain(
        run,
        member.seat,
        path,
        epoch=epoch,
        clock=MACHINE_CLOCK,
        main=main,
        on_batch=lambda *_: None,
    )
    drain.beat(MACHINE_CLOCK.now_ns(), epoch=epoch, pid=os.getpid())
    storage.readings(drain.finish())
    for segment in drain.close():
        seal_segment(segment)
    drain.seal(complete=True, remove=True)
    return 1
