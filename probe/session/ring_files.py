"""Where this process puts its rings: shared memory if possible, else a local disk, never NFS."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ..errors import StoreError
from ..ring import layout
from ..ring.writer import RingWriter
from ..store.members import SHARED_MEMORY, members_of_process
from ..store.new_files import make_folder_here
from ..store.processes import start_ticks

_REMOTE = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "9p",
    "fuse.sshfs",
    "afs",
    "glusterfs",
    "fuse.glusterfs",
    "wekafs",
}


class RingPlace:
    """Opens the rings of one process in one run."""

    def __init__(self, run: Path, rank: int, ordinal: int = 1):
        """Choose the folder; ``ordinal`` numbers the watches of this process: names are unique."""
        self._run = run
        self._pid = os.getpid()
        # A process that replaced itself by `exec` has the id and the start of the one before.
        self._ordinal = ordinal = ordinal + members_of_process(run, self._pid)
        self._ticks = start_ticks(self._pid) or 0
        self.prefix = f"phasewatt-{os.getuid()}-{run.name}-{rank}-{self._pid}.{ordinal}-"
        self.folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else self._local()

    def open(self, label: str, capacity: int) -> RingWriter:
        """Create a ring for one thread.

        Args:
            label: ``main``, or ``t<thread id>``.
            capacity: in slots; less if memory is short.

        Raises:
            StoreError: neither memory nor a local disk has room.
        """
        capacity = self._affordable(capacity)
        name = f"{self.prefix}{label}_{self._pid}_{self._ordinal}.ring"
        create = functools.partial(
            RingWriter, capacity=capacity, start_ticks=self._ticks, run=self._run
        )
        try:
            return create(self.folder / name)
        except StoreError:
            if self.folder != SHARED_MEMORY or label != "main":
                raise
        self.folder = self._local()
        return create(self.folder / name)

    def _affordable(self, capacity: int) -> int:
        """At most a 64th of what is free: NCCL and data loaders live there too."""
        try:
            stat = os.statvfs(self.folder)
        except OSError:
            return capacity
        free = stat.f_bavail * stat.f_frsize
        while capacity > layout.THREAD_CAPACITY and capacity * layout.SLOT_BYTES > free // 64:
            capacity //= 2
        return capacity

    def _local(self) -> Path:
        folder = self._run / "rings"
        if filesystem_of(self._run) in _REMOTE:
            folder = Path(os.environ.get("TMPDIR", "/tmp"))
        try:
            make_folder_here(folder)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from None
        return folder


def filesystem_of(path: Path) -> str:
    """Type of the file system that holds ``path``; empty where /proc does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    target = str(path.resolve())
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4]
        inside = mount == "/" or target == mount or target.startswith(f"{mount}/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind
