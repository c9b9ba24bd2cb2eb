"""Seal the run of a command that ended before its recorder was up: there is nothing to wait for.

Interpreter, numpy and meters take most of a second to start. A command that is over by then was not
measured; its run says so, and how it ended.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..model import RunStatus
from ..recorder.spawn import claim, current_epoch, sign
from ..store import files
from ..store.layout import RUN_FILE
from ..store.run_fields import RunFields
from ..store.trainings import numbers


def seal_unrecorded(run: Path, code: int) -> bool:
    """Write how the command ended; False if there is a training, or a recorder after all.

    The run is fenced first: a recorder that is still starting will write nothing into it.

    Raises:
        OSError: the disk refuses.
    """
    value = files.read_fields(run / RUN_FILE)
    # A recorder is fenced only where its work can be done here: else nobody would do it.
    if value is None or numbers(run) or not claim(run, current_epoch(run) + 1):
        return False
    sign(run, current_epoch(run))
    end_ns = time.monotonic_ns()
    duration_s = (end_ns - int(value["begin_ns"])) / 1e9
    value |= how_it_ended(code)
    value |= {"end_ns": end_ns, "duration_s": duration_s}
    files.write_json(run / RUN_FILE, value, checked=True)
    return True


def how_it_ended(code: int) -> RunFields:
    """Fields of run.json, as the recorder says them of a command."""
    status, ended_by = RunStatus.FINISHED, ""
    if code < 0:
        status, ended_by = RunStatus.KILLED, f"the command was ended by signal {-code}"
    elif code > 0:
        status, ended_by = RunStatus.FAILED, f"the command failed with exit code {code}"
    return {
        "status": status,
        "exit_code": code,
        "ended_by": ended_by,
        "ranks": 1,
        "steps": 0,
        "recorded": False,
        "warnings": ["nothing was measured: the command had ended before the meters were open"],
    }
