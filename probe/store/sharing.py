"""Who may read a run: its owner, unless the run is shared with the group or with all.

The mode of the run's directory says so, and every host and attempt that writes into the run follows
it (:mod:`new_files`). PROBE_SHARE is the mode of new runs; run.json keeps what a run began with.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from ..errors import StoreError, UsageError
from .layout import LOOKED_FILE
from .new_files import for_readers

PRIVATE = "private"
MODES = {PRIVATE: 0o700, "group": 0o750, "all": 0o755}


def wanted() -> str:
    """What PROBE_SHARE asks for: a key of :data:`MODES`. Raises UsageError if it is none."""
    who = os.environ.get("PROBE_SHARE") or PRIVATE
    if who not in MODES:
        raise UsageError(f"PROBE_SHARE={who!r}: write group, all or private")
    return who


def make_run_folder(run: Path, who: str, *, exist_ok: bool) -> None:
    """Make a run's directory, readable by ``who``; one that is there stays as it is.

    Raises:
        OSError: it is there and must not be, or cannot be made.
    """
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        if not exist_ok:
            raise
        return
    if who != PRIVATE:
        _set(run, MODES[who])


def share(run: Path, who: str) -> None:
    """Let the owner alone, the group or all read a run, now and while it goes on.

    Args:
        run: its directory.
        who: a key of :data:`MODES`.

    Raises:
        StoreError: only its owner may say who reads it.
    """
    mode = MODES[who]
    try:
        if who == PRIVATE:
            _set(run, mode)
            return
        for folder, folders, names in os.walk(run):
            for name in folders:
                _add(Path(folder, name), mode & 0o055)
            for name in names:
                is_looked = name == LOOKED_FILE
                _add(Path(folder, name), for_readers(mode) if is_looked else mode & 0o044)
        _set(run, mode)
    except OSError as error:
        owner = owner_name(run)
        raise StoreError(
            f"cannot share {run}: {error.strerror}; its owner {owner} can, with "
            f"`probe share {run.name} {who}`"
        ) from None


def private_line(folder: Path) -> str | None:
    """What to say of a directory that this user may not read; None if it may be read."""
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode) or os.access(folder, os.R_OK | os.X_OK):
        return None
    owner = owner_name(folder)
    return f"private, of {owner}, who opens it with `probe share {folder.name} group`"


def owner_name(path: Path) -> str:
    """The name of the owner of a file, or the number where there is no name."""
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return "unknown"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _set(folder: Path, mode: int) -> None:
    """The set-group-ID bit stays: new files get the group of the directory of runs."""
    os.chmod(folder, mode | os.stat(folder).st_mode & stat.S_ISGID)


def _add(path: Path, bits: int) -> None:
    """Add rights to a file or folder; a link, and what is no file, is left as it is."""
    kind = os.lstat(path).st_mode
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        return
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | bits)
    finally:
        os.close(fd)
