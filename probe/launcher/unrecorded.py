"""Seal the run of a command that ended before its recorder was up: there is nothing to wait for.

Interpreter, numpy and meters take most of a second to start, and a command that is over by then
was measured by nobody. Its run says how it ended, and that.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..model import RunStatus
from ..recorder.spawn import claim, current_epoch, sign
from ..store import files
from ..store.layout import RUN_FILE
from ..store.trainings import numbers


def seal_unrecorded(run: Path, code: int) -> bool:
    """Write how the command ended; False if there is a training, or a recorder after all.

    The run is fenced first: a recorder that is still starting will write nothing into it.

    Raises:
        OSError: the disk refuses.
    """
    if numbers(run) or not claim(run, current_epoch(run) + 1):
        return False
    sign(run, current_epoch(run))
    value: dict[str, Any] | None = files.read_json(run / RUN_FILE)
    if value is None:
        return False
    end_ns = time.monotonic_ns()
    duration_s = (end_ns - int(value["begin_ns"])) / 1e9
    value |= how_it_ended(code) | {"end_ns": end_ns, "duration_s": duration_s}
    files.write_json(run / RUN_FILE, value, checked=True)
    return True


def how_it_ended(code: int) -> dict[str, Any]:
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
