"""Reading files that others may have put there.

A directory of runs is often shared. Whoever may write to it can leave a FIFO, a device, a link, or
a file of a thousand gigabytes that holds nothing; nobody's reader may hang on it or fill up with
it. So a file is opened only if it is a regular file of a plausible size, without following a link.
In a run, files count only if they belong to whoever owns the run's directory, or to root. (The
owner of the directory, not the reader: a file server may give all files to one user.)
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_ROOT = 0
# The folders that lie in a run's directory, or in one of these.
_INSIDE = re.compile(r"(hot|cold|rollup|rings|members|launcher|rank-\d+|training-\d+|node-.+)\Z")


@contextlib.contextmanager
def opened(path: Path, most_bytes: int, *, owned: bool = True) -> Iterator[IO[bytes]]:
    """A regular file, opened for reading.

    Args:
        path: not followed if it is a link.
        most_bytes: the largest size of such a file.
        owned: in a run's directory, refuse files of others than the run's owner and root.

    Raises:
        OSError: missing, not a regular file, too large, of another user, or unreadable.
    """
    _check(path, os.lstat(path), most_bytes)  # opening a device may already do something
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)  # it may have been replaced in between
        _check(path, status, most_bytes)
        if owned and not is_trusted(path, status):
            raise PermissionError(errno.EPERM, "it belongs to another user than its run", str(path))
        yield file


def read_regular(path: Path, most_bytes: int, *, owned: bool = True) -> bytes:
    """The content of a regular file; arguments and errors as of :func:`opened`. Raises OSError."""
    with opened(path, most_bytes, owned=owned) as file:
        # Not most_bytes at once: room for megabytes costs more than to read a small file.
        size = min(most_bytes, os.fstat(file.fileno()).st_size)
        content = file.read(size + 1)
        if len(content) > size:  # it grew meanwhile
            content += file.read(most_bytes + 1 - len(content))
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def parsed(content: bytes) -> Any:
    """The JSON value of a file's content.

    Raises:
        ValueError: not UTF-8, not JSON, or nested deeper than anything of ours.
    """
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def is_trusted(path: Path, status: os.stat_result) -> bool:
    """Whether a file or folder of a run belongs to the owner of the run's directory, or to root.

    Args:
        path: where it lies.
        status: of the file itself.
    """
    if status.st_uid == _ROOT:
        return True
    try:
        return status.st_uid == os.stat(run_of(path)).st_uid
    except OSError:
        return False


def is_trusted_folder(path: Path) -> bool:
    """Whether ``path`` is a folder (no link to one) of the owner of its run, or of root."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and is_trusted(path, status)


def is_regular(path: Path) -> bool:
    """Whether there is a regular file, not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def run_of(path: Path) -> Path:
    """The run's directory that a file lies in, by the names of the folders between."""
    folder = path.parent
    while _INSIDE.match(folder.name):
        folder = folder.parent
    return folder


def _check(path: Path, status: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if status.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {most_bytes >> 20} MiB", str(path))
