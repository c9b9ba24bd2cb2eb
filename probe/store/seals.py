"""Wait for the recorder of a run that is over: on a busy machine it writes the end later."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import ProbeError
from ..model import RunStatus
from .layout import node_name
from .members import Member
from .processes import boot_id, pid_namespace
from .reader import RunReader

_SEAL_S, _UNSEEN_S, _TURN_S = 20.0, 5.0, 0.05
_SAID_AFTER_S = 1.0
_STARTS_WITHIN_NS = 60 * 10**9


def await_seal(run: Path, say: Callable[[str], object] = lambda _: None) -> None:
    """Wait until the run's end is written: 20 s at most, 5 s for a recorder that is not seen.

    Such a recorder may not even have said that it is there, so that the run looks killed.

    Args:
        run: the directory of a run whose processes are over.
        say: hears why nothing happens, once, if it takes longer than a second.
    """
    begin_s, said = time.monotonic(), False
    with contextlib.suppress(ProbeError):
        while (reader := RunReader(run)).meta.get("status") == RunStatus.RUNNING:
            waited_s = time.monotonic() - begin_s
            if waited_s > (_SEAL_S if reader.status is RunStatus.RUNNING else _UNSEEN_S):
                return
            if waited_s > _SAID_AFTER_S and not said:
                said = True
                say(f"{run.name} has just ended: waiting until its recorder has written the end")
            time.sleep(_TURN_S)


def await_end(run: Path) -> Path:
    """The run, for a command to read: if it has just ended, once its end is written.

    Without this, what follows a training at once in a script would see a run that still goes on.
    """
    with contextlib.suppress(ProbeError):
        if _is_closing(RunReader(run)):
            await_seal(run, lambda line: print(f"phasewatt: {line}", file=sys.stderr))
    return run


def await_ends(runs: Iterable[Path]) -> None:
    """The same of several: a comparison would leave out one that still goes on."""
    for run in runs:
        await_end(run)


def _has_ended(member: Member) -> bool:
    """Whether it left its watched block, or died, and its launcher will not start it again."""
    return bool(member.info.get("left") or not member.alive()) and not member.starts_again()


def _is_closing(reader: RunReader) -> bool:
    """Whether all processes of a run are over, as seen from here, and a recorder still writes."""
    meta = reader.meta
    is_here = meta.get("boot_id") == boot_id() and meta.get("pid_namespace") == pid_namespace()
    members = [member for member in reader.members if member.host == node_name()]
    if meta.get("status") != RunStatus.RUNNING or not is_here or not members:
        return False
    if not all(map(_has_ended, members)):
        return False
    if "recorder" in meta:
        return reader.status is RunStatus.RUNNING
    return time.monotonic_ns() - reader.begin_ns < _STARTS_WITHIN_NS  # it may still be starting
