"""A folder of trials, each a process of its own: where one lies, who may run them, how they end."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from .errors import UsageError

_ATTEMPTS = 10_000
_OF_A_RUN = ("PROBE_RUN", "PROBE_TASK", "PROBE_RESUME")  # each trial is a run of its own
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def new_place(folder: Path, name: str) -> Path | None:
    """A new folder for an attempt at a trial; those of earlier attempts are kept.

    Args:
        folder: of all trials; made if it is not there.
        name: of the trial; what does not fit a file name is replaced.

    Returns:
        None if there are thousands of attempts.
    """
    stem = re.sub("[^A-Za-z0-9+._-]", "_", name)
    for attempt in range(1, _ATTEMPTS):
        place = folder / (stem if attempt == 1 else f"{stem}-{attempt}")
        with contextlib.suppress(FileExistsError):
            place.mkdir(parents=True)
            return place
    return None


@contextlib.contextmanager
def alone(folder: Path, what: str, host: str = "") -> Iterator[None]:
    """Hold the folder's lock: two processes that train at once would measure each other.

    Args:
        folder: of the trials.
        what: ablation or search, for the error.
        host: whose lock it is, where several hosts share the folder.

    Raises:
        UsageError: another process holds it.
    """
    with (folder / (f"lock-{host}" if host else "lock")).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another process runs the {what} in {folder}") from None
        yield


def trial_environment(runs: Path) -> dict[str, str]:
    """This process's environment for a trial whose run lies in ``runs``, also below `probe run`."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_RUN}
    return kept | {"PROBE_DIR": str(runs.absolute())}


def end_with_parent() -> None:
    """Runs in the child: end the trial when its parent is killed (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
