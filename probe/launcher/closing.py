"""What `probe run` prints when its command has ended: the report, or a block for a job's log."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ProbeError
from ..session.jobs.batch_job import scheduler_fields

if TYPE_CHECKING:
    from ..report.group_model import GroupReport
    from ..report.model import Report

# For a command's end: a recorder that has a card's meters and long phases closes in 6 s on one core
# (H100, 12 meters), and without its files the report is of an unfinished run.
SEAL_S = 15.0
_TITLES = {"slurm": "Slurm", "pbs": "PBS", "lsf": "LSF"}


def import_early() -> None:
    """What the report needs, while the command runs: else its end would wait for it."""

    def load() -> None:
        with contextlib.suppress(Exception):
            # scipy.special takes 0.3 s; every estimate needs it.
            for name in ("..report.build.report", "..report.formats.text", "scipy.special"):
                import_module(name, __package__)

    threading.Thread(target=load, daemon=True).start()


def print_end(run: Path, *, sealed: bool) -> None:
    """Print how a run went, to standard error.

    In the log of a batch job it is a block of eight lines at most, else the report's text.

    Args:
        run: its directory.
        sealed: whether its files are closed.
    """
    from ..report.build import report_of

    try:
        report = report_of(run)
        job = scheduler_fields()
        if job is not None and not sys.stderr.isatty():
            print("\n".join(job_lines(report, run, job)), file=sys.stderr, flush=True)
            return
        print(f"\n{report}", file=sys.stderr)
        unsealed = "" if sealed else "   (its files are still being closed)"
        print(f"\nagain          probe report {run}{unsealed}", file=sys.stderr)
        print(f"in a browser   probe dashboard {run.parent}", file=sys.stderr, flush=True)
    except ProbeError as error:
        say(str(error))


def job_lines(report: Report | GroupReport, run: Path, job: Mapping[str, object]) -> list[str]:
    """The block for the log of a batch job.

    Args:
        report: of the run.
        run: its directory.
        job: its scheduler's variables, as in run.json.
    """
    from ..report.group_document import brief_of

    names = [str(job[key]) for key in ("job_name", "account", "partition") if job.get(key)]
    title = f"{_TITLES[str(job['scheduler'])]} job {job['job_id']}"
    return [
        f"-- phasewatt: {' · '.join([title, *names])}",
        *brief_of(report),
        f"probe report {run}",
    ]


def say(line: str) -> None:
    """Print one line to standard error."""
    print(f"phasewatt: {line}", file=sys.stderr, flush=True)
