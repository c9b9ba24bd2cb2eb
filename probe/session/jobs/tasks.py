"""A `probe run` in each task of a job: their trainings are ranks of one run, which they make.

``srun probe run -- python train.py`` starts one `probe run` for each task. A run for each would
count the meters of a node once for each of its tasks. So such a `probe run` makes none: the
processes below it that train join their job's run, as if they had called ``watch()``, and leave its
path in a note for the `probe run` above them, which waits for the run's end and prints it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from ...store.processes import parent_of

TASK = "PROBE_TASK"  # "<pid of probe run>:<path of its note>"
_MOST_BYTES = 4096


class RunNote:
    """The note of a `probe run`: in which runs the processes below it trained."""

    def __init__(self) -> None:
        """Make an empty one. Raises OSError."""
        descriptor, name = tempfile.mkstemp(prefix="phasewatt-task-")
        os.close(descriptor)
        self._path = Path(name)
        self.variable = f"{os.getpid()}:{name}"

    def runs(self) -> list[Path]:
        """Directories of the runs, each once, in the order in which they began."""
        try:
            lines = self._path.read_text(errors="replace")[: 1 << 20].splitlines()
        except OSError:
            return []
        return [Path(line) for line in dict.fromkeys(lines) if line]

    def remove(self) -> None:
        """Take it away; never raises."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def note_run(run: Path) -> None:
    """Tell the `probe run` of this task, if there is one, in which run this process trains."""
    _, _, name = os.environ.get(TASK, "").partition(":")
    line = f"{run.absolute()}\n".encode()
    if not name or len(line) > _MOST_BYTES:
        return
    with contextlib.suppress(OSError):  # it was removed: its `probe run` has ended
        note = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(note, line)
        finally:
            os.close(note)


def launcher_of(parent: int) -> int:
    """The process that started the ranks: of a `probe run` in between, its parent."""
    pid, _, _ = os.environ.get(TASK, "").partition(":")
    if pid != str(parent):
        return parent
    return parent_of(parent) or parent
