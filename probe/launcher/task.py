"""A `probe run` that is one task of a job of several: :mod:`probe.session.jobs.tasks` says why."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..model import RunStatus
from ..session.jobs.job import Job
from ..session.jobs.tasks import TASK, RunNote
from ..store.files import read_fields
from ..store.layout import runs_dir
from ..store.runs import status_file, status_files
from .closing import SEAL_S, import_early, print_end, say
from .pass_through import pass_through
from .script import script_environment

_POLL_S = 0.05
_IMPORTS_AFTER_S = 3.0  # when the script has started
_OTHERS_S, _OTHERS_KILLED_S = 5.0, 1.0  # a batch system that ends a job gives it little time
_NOTHING = (
    "no PyTorch training was seen in this task, and nothing was recorded: of a job with several "
    "tasks, trainings are recorded (`with probe.watch():` around anything else)"
)


def run_task(
    command: Sequence[str], job: Job, *, directory: str | None, name: str | None, quiet: bool
) -> int:
    """Run the command; what trains below it joins the job's run.

    Args:
        command: its words.
        job: this task's place in it.
        directory: of runs; None: the usual one.
        name: of the run; None: that of the script.
        quiet: print no report.

    Returns:
        The command's exit code, negative for a signal.

    Raises:
        UsageError: the command cannot be run.
    """
    note, environment = None, dict(os.environ)
    first = job.rank == 0
    try:
        note = RunNote()
        chosen = {"PROBE_DIR": str(runs_dir(directory).absolute())} if directory else {}
        chosen |= {"PROBE_NAME": name} if name else {}
        environment = script_environment(**{TASK: note.variable}, **chosen)
    except OSError as error:
        say(f"{error}; the command runs unwatched")
    duties = [(_IMPORTS_AFTER_S, import_early)] if first and not quiet else []
    try:
        code = pass_through(command, environment, duties)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror}") from None
    if note is not None:
        try:
            others_s = _OTHERS_KILLED_S if code < 0 else _OTHERS_S
            _finish(note.runs(), quiet=quiet or not first, others_s=others_s)
        except (Exception, KeyboardInterrupt) as error:
            with contextlib.suppress(Exception):
                say(f"no report: {type(error).__name__}: {error}")
        note.remove()
    return code


def _finish(runs: Sequence[Path], *, quiet: bool, others_s: float) -> None:
    """Wait for the ends of the runs, and print them.

    Args:
        quiet: print nothing.
        others_s: how long other hosts' recorders are waited for, once this host's has ended.
    """
    deadline_s = time.monotonic() + SEAL_S
    for run in runs:
        sealed = _await_seals([status_file(run)], deadline_s)
        if not quiet:
            _await_seals(status_files(run), min(deadline_s, time.monotonic() + others_s))
            print_end(run, sealed=sealed)
    if not runs and not quiet:
        say(_NOTHING)


def _await_seals(files: Sequence[Path], deadline_s: float) -> bool:
    """Wait until recorders have closed the run's files, or are gone; whether all have in time."""
    while not all(map(_is_sealed, files)):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _is_sealed(status: Path) -> bool:
    """Whether a host's recorder has closed the run's files, or there is none any more."""
    fields = read_fields(status)
    return fields is None or fields.get("status") != RunStatus.RUNNING
