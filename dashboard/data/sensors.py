"""The result of ``probe doctor``, run as a subprocess.

The dashboard opens no sensors: their libraries are as large as all the rest of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TypedDict, cast

from probe.child_python import module_paths
from probe.errors import StoreError

_TIMEOUT_S = 60.0
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from probe.cli.main import main
main(["doctor", "--json"])
"""


class SourceFields(TypedDict):
    """A meter of this machine; ``resolution_s`` is its update period, where that is known."""

    device: str
    quantity: str
    method: str
    provenance: str
    in_total: bool
    resolution_s: float | None
    note: str


class AbsenceFields(TypedDict):
    """A meter that is not there, why, and what would bring it."""

    what: str
    reason: str
    remedy: str | None


class SensorFields(TypedDict):
    """What one sensor offers, and what it lacks."""

    sensor: str
    sources: list[SourceFields]
    absent: list[AbsenceFields]
    warnings: list[str]


class Diagnosis(TypedDict):
    """What the page shows of the JSON of ``probe doctor``; ``versions`` None: not installed."""

    versions: dict[str, str | None]
    python: str
    sensors: list[SensorFields]


class Sensors:
    """The sensors of this machine, examined once, and again on demand.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: Diagnosis | None = None

    def examine(self, *, again: bool = False) -> Diagnosis:
        """The JSON of ``probe doctor``. Raises StoreError with the reason."""
        with self._lock:
            if self._answer is None or again:
                self._answer = _ask()
            return self._answer


def _ask() -> Diagnosis:
    command = [sys.executable, "-I", "-S", "-c", _BOOT, json.dumps(module_paths())]
    try:
        done = subprocess.run(
            command,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"`probe doctor` gave no answer: {type(error).__name__}") from None
    if not isinstance(answer, dict):
        raise StoreError("`probe doctor` gave no answer")
    return cast(Diagnosis, answer)  # one of another version fails where it is shown
