"""The dashboard's server for ``watch(dashboard=True)``: a separate process beside the recorder.

It outlives the run, so that finished runs can be viewed; it ends by itself when no run is going on
and no page was requested for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from ...store.dashboard_address import serving
from ...store.new_files import open_to_append

IDLE_S = 900.0
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from probe.cli.main import main
main(sys.argv[2:])
"""


class DashboardServer:
    """Starts the server once; a failure is a warning of the run, never its end."""

    def __init__(self, run: Path, port: int | None):
        """Start it on ``port``; None: there is none to start."""
        self.wanted = port is not None
        self._problem = ""
        self._child: subprocess.Popen[bytes] | None = None
        if port is not None and serving(run.parent) is None:
            try:
                self._child = _start(run, port)
            except OSError as error:
                self._problem = f"dashboard: it cannot be started: {error.strerror or error}"

    def problems(self) -> list[str]:
        """One clear line, or none."""
        if self._child is not None and self._child.poll():
            self._problem = (
                f"dashboard: it ended with code {self._child.returncode}: see "
                "dashboard.log in the run's directory"
            )
            self._child = None
        return [self._problem] if self._problem else []


def _start(run: Path, port: int) -> subprocess.Popen[bytes]:
    words = ["dashboard", str(run.parent), "--port", str(port), "--idle", str(IDLE_S), "--quiet"]
    log = open_to_append(run / "dashboard.log")
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, json.dumps(sys.path), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            close_fds=True,
            start_new_session=True,
            cwd="/",
        )
    finally:
        with contextlib.suppress(OSError):
            os.close(log)
