"""Writing into directories that others may write to: nothing goes through a link that they left."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO

from .untrusted import run_of

_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_new(path: Path) -> IO[bytes]:
    """A file that did not exist, for writing, which may read it again.

    Raises:
        FileExistsError, OSError: it cannot be made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666)
    _follow_the_run(path, fd, 0o044)
    return os.fdopen(fd, "w+b")


def open_temporary(path: Path) -> IO[bytes]:
    """A new file under a name that only its writer uses; what a killed one left goes.

    Raises:
        OSError: no space, no right.
    """
    path.unlink(missing_ok=True)
    return open_new(path)


def open_to_append(path: Path) -> int:
    """A descriptor of a regular file that grows (a log); made if it is missing.

    Raises:
        OSError: no right, or a link, a FIFO or a device has its name.
    """
    fd = _regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _follow_the_run(path, fd, 0o044)
    return fd


def rewrite(path: Path, content: bytes) -> None:
    """Write a file that exists anew, in place. Raises OSError."""
    fd = _regular(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, 0)
        os.write(fd, content)
    finally:
        os.close(fd)


def touch(path: Path) -> None:
    """Make a regular file, or set its time to now. Raises OSError."""
    fd = _regular(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.utime(fd)
    finally:
        os.close(fd)


def make_for_readers(path: Path) -> int:
    """Make an empty file of a run that all readers of the run may :func:`touch`.

    Raises:
        FileExistsError, OSError: it cannot be made.

    Returns:
        When it was made, ns since the epoch.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o644)
    try:
        os.fchmod(fd, 0o600 | for_readers(os.stat(run_of(path)).st_mode))
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)


def for_readers(mode: int) -> int:
    """The bits with which all readers of a folder of this mode may read and write a file in it."""
    return mode & 0o044 | (mode & 0o044) >> 1


def make_folder_here(path: Path) -> bool:
    """Make one folder unless it is there. Raises OSError, also where a link has its name.

    Returns:
        Whether this call made it.
    """
    made = False
    with contextlib.suppress(FileExistsError):
        path.mkdir()
        made = True
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _follow_the_run(path, fd, 0o055)
        finally:
            os.close(fd)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "a link where a folder should be", str(path))
    return made


def owner_of_new_files(folder: Path) -> int:
    """The uid that a file gets which this process makes in ``folder``.

    Not this process's own on a file server that gives all files to one user. Raises OSError.
    """
    path = folder / f".owner.{os.getpid()}.{os.urandom(4).hex()}"
    with open_new(path) as file:
        path.unlink()
        return os.fstat(file.fileno()).st_uid


def is_own_folder(path: Path, owner: int) -> bool:
    """Whether ``path`` is a folder (no link to one) of the user ``owner``. Raises OSError."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == owner


def _follow_the_run(path: Path, fd: int, bits: int) -> None:
    """Let whoever may read the run's directory read what is new in it, whatever the umask is."""
    run = run_of(path)
    with contextlib.suppress(OSError):
        if (run / "members").is_dir() or path.name == "members":
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            shared = mode | os.stat(run).st_mode & bits
            if shared != mode:
                os.fchmod(fd, shared)


def _regular(path: Path, flags: int) -> int:
    fd = os.open(path, flags | _PLAIN, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd
