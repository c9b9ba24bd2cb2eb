"""The trainings below one `probe run`: each process that trains is one, ranks of a job are one.

A process that begins to train takes the next number and makes ``training-<number>`` in the run's
directory. With one of them the run is that training, as if it had watched itself. From the second
one on the run is a group: meters stand in the run's directory once, the edges of the first
training beside them, those of each further one in its own directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import StoreError, UsageError
from . import files, layout
from .members import read_members
from .new_files import make_folder_here
from .new_run_file import new_run_file
from .run_fields import RunFields, StartFields
from .untrusted import is_regular

_NAMED = re.compile(r"training-([1-9]\d{0,5})\Z")
_LOCK = ".joining"
TORCH_SEEN = ".torch"  # among the members: a process below `probe run` has imported it
_LOCK_S = 10.0  # ranks of a job hold it for a millisecond each, on a busy machine for longer


def numbers(run: Path) -> list[int]:
    """The numbers of the trainings of a run, ascending; none where there is no `probe run`."""
    return [n for n in _taken(run) if is_regular(layout.training_dir(run, n) / layout.RUN_FILE)]


def _taken(run: Path) -> list[int]:
    """Also those of processes that are just joining."""
    try:
        names = os.listdir(run)
    except OSError:
        return []
    return sorted(int(match[1]) for name in names if (match := _NAMED.match(name)))


def is_group(run: Path) -> bool:
    """Whether several processes trained below this `probe run`."""
    return len(numbers(run)) > 1


def place_of(path: Path) -> tuple[Path, int] | None:
    """(the group's directory, the number) of a training's directory; None if it is none."""
    match = _NAMED.match(path.name)
    if match is None or not is_regular(path.parent / layout.RUN_FILE):
        return None
    return path.parent, int(match[1])


def group_of(path: Path) -> Path:
    """The directory of the run that meters and processes stand in: of a training, the group's."""
    place = place_of(path)
    return path if place is None else place[0]


def single(run: Path) -> Path:
    """The directory of one training.

    Raises:
        UsageError: it is a group; the message says how its trainings are named.
    """
    several = numbers(run) if place_of(run) is None else []
    if len(several) < 2:
        return run
    raise UsageError(
        f"{run.name} is a group of {len(several)} trainings: name one of them, "
        f"{run.name}/{several[0]} … {run.name}/{several[-1]} (or `latest/{several[0]}`)"
    )


def take_number(run: Path, *, key: str | None, rank: int, attempt: int, fields: StartFields) -> int:
    """The number of the training that this process belongs to, a new one if it begins one.

    Args:
        key: of the launcher whose ranks are one training; None: a process of its own.
        rank: of this process in it.
        attempt: how often the launcher had started its ranks again.
        fields: of the training's run.json, where this process is its first.

    Raises:
        StoreError: the run's directory cannot be written, or what is given is too large.
    """
    value = new_run_file({"group": run.name, **fields, "job_key": key})
    try:
        if key is None:
            return _begin(run, value)
        with _locked(run):
            for number in reversed(numbers(run)):
                if _goes_on(run, number, key, rank, attempt):
                    return number
            return _begin(run, value)
    except OSError as error:
        raise StoreError(f"cannot join {run}: {error.strerror or error}") from None


def _begin(run: Path, value: RunFields) -> int:
    """Take the lowest number above all that are taken, and write the training's first run.json."""
    number = max(_taken(run), default=0) + 1
    while not make_folder_here(layout.training_dir(run, number)):
        number += 1
    path = layout.training_dir(run, number) / layout.RUN_FILE
    files.create_json(path, value | {"id": f"{run.name}/{number}"})
    return number


def _goes_on(run: Path, number: int, key: str, rank: int, attempt: int) -> bool:
    """Whether a rank of the job ``key`` belongs to this training; a key may come again."""
    stored = files.read_fields(layout.training_dir(run, number) / layout.RUN_FILE)
    if stored is None or stored.get("job_key") != key:
        return False
    members = [m for m in read_members(run) if m.training == number and m.role == "rank"]
    if attempt > max((m.attempt for m in members), default=0):
        return True  # its launcher has started it again
    latest = [m for m in members if m.attempt == attempt]
    if any(m.rank == rank for m in latest):
        return False
    return not latest or any(m.alive() for m in latest)


@contextlib.contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One process at a time. A record lock: a child that is forked meanwhile does not hold it."""
    path = layout.members_dir(run) / _LOCK
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline_s = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                if time.monotonic() > deadline_s:
                    raise OSError(errno.EAGAIN, "another process has kept it locked") from None
                time.sleep(0.002)
        yield
    finally:
        os.close(fd)


def nothing_trained(run: Path) -> str:
    """Of a command that has ended: that no training was seen in it, and what was; else empty."""
    members = read_members(run)
    if not any(m.role == "launcher" for m in members) or any(m.role == "rank" for m in members):
        return ""
    seen = "torch was not imported by any Python that was heard"  # -I, -E and -S hide one
    if os.path.lexists(layout.members_dir(run) / TORCH_SEEN):
        seen = "torch was imported, but no optimizer, backward or loader was recorded"
    return f"no PyTorch training was seen in this command: {seen}"
