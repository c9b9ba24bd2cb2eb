"""``probe run -- python train.py``: measure a command from outside, pass everything through.

The command keeps its terminal, its standard streams, its arguments and its process
group. Signals sent to us are forwarded (those of the terminal reach it anyway), and
its exit code or signal becomes ours.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..clock import MACHINE_CLOCK
from ..errors import ProbeError, StoreError, UsageError
from ..ring.layout import EndCode, Record
from ..session.job import current_job, device_request
from ..session.names import command_name
from ..session.options import dashboard_port
from ..session.recorder_supervisor import Supervisor
from ..session.ring_files import RingPlace
from ..store.dashboard_address import address, port_for
from ..store.foreign_folder import foreign_line
from ..store.layout import is_default, node_name, runs_dir
from ..store.members import Member
from ..store.processes import boot_id, start_ticks
from ..store.runs import create_run, new_run_id
from .pass_through import pass_through
from .unrecorded import seal_unrecorded

_RECORDER_AFTER_S = 0.1  # a shorter command ends before any meter could be opened
_IMPORTS_AFTER_S = 3.0  # when the script has started
_NOT_AWAITED_S = (
    3.0  # of a command that was shorter, a recorder that is not up yet has read nothing
)
_BOOT = Path(__file__).with_name("site")


class Launch:
    """One watched command."""

    def __init__(self, command: Sequence[str], *, directory: str | None, name: str | None):
        """Create the run and start its recorder. Raises StoreError."""
        runs = runs_dir(directory)
        if is_default(directory) and (line := foreign_line(runs)):
            print(line, file=sys.stderr, flush=True)
        wanted = dashboard_port(os.environ.get("PROBE_DASHBOARD"))
        dashboard = None if wanted is None else port_for(runs, wanted)
        self.run = create_run(
            runs,
            new_run_id(name, time.time()),
            shared=False,
            fields={
                "name": name or command_name(command),
                "command": list(command),
                "country": os.environ.get("PROBE_COUNTRY") or None,
                "data": "unknown",
                "config": None,
                "target": None,
                "dashboard": dashboard,
            },
        )
        if dashboard is not None:
            _say(f"dashboard at {address(dashboard, self.run.name)}")
        place = RingPlace(self.run, -1)
        self._ring = place.open("main", 1 << 8)
        job = current_job()
        Member(
            role="launcher",
            rank=-1,
            local_rank=None,
            local_world_size=1,
            world_size=1,
            host=node_name(),
            boot_id=boot_id(),
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()) or 0,
            begin_ns=time.monotonic_ns(),
            rings=str(place.folder),
            prefix=place.prefix,
            request=device_request(os.environ.get("PROBE_DEVICES") or None, job),
        ).write(self.run)
        self._supervisor = Supervisor(self.run, self._ring, MACHINE_CLOCK)
        self._begun_ns = time.monotonic_ns()
        self.recorded = False  # a recorder was started

    def start_recorder(self) -> None:
        """Once the command has been running for a moment; trouble is one line."""
        self.recorded = True
        try:
            self._supervisor.start(wait=False)
        except OSError as error:
            _say(f"the recorder cannot be started: {error.strerror or error}")

    def finish(self, code: int) -> bool:
        """Say how the command ended; True once everything is sealed on disk."""
        end = EndCode.FINISHED if code == 0 else EndCode.FAILED
        self._ring.write(Record.END, end, code)
        self._ring.close()
        short = time.monotonic_ns() - self._begun_ns < _NOT_AWAITED_S * 1e9
        if short and not self._supervisor.has_started() and seal_unrecorded(self.run, code):
            self._ring.path.unlink(missing_ok=True)
            return True
        if not self.recorded:  # it trained, and was over before the recorder's time had come
            self.start_recorder()
        return self._supervisor.await_seal()


def run_command(
    command: Sequence[str], *, directory: str | None, name: str | None, quiet: bool
) -> int:
    """Run and measure; returns the command's exit code, negative for a signal.

    Raises:
        UsageError: there is no such command.
    """
    if not command:
        raise UsageError("nothing to run: write `probe run -- python train.py`")
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no command {command[0]!r}")
    launch: Launch | None = None
    try:
        launch = Launch(command, directory=directory, name=name)
    except (StoreError, OSError) as error:
        _say(f"{error}; the command runs unwatched")
    duties = [(_RECORDER_AFTER_S, launch.start_recorder)] if launch is not None else []
    if launch is not None and not quiet:
        duties.append((_IMPORTS_AFTER_S, _import_early))
    try:
        code = pass_through(command, _environment(launch), duties)
    except OSError as error:
        if launch is not None:
            launch.finish(127)
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror}") from None
    if launch is not None:
        # The command has ended: whatever happens to its report, its exit code is ours.
        try:
            if not quiet and launch.recorded:
                _import_early()
            sealed = launch.finish(code)
            if not quiet:
                _print_report(launch.run, sealed)
        except (Exception, KeyboardInterrupt) as error:
            with contextlib.suppress(Exception):
                why = f"{type(error).__name__}: {error}"
                _say(f"no report: {why}. Try `probe report {launch.run}`")
    # The garbage collection at exit takes a tenth of a second for numpy's and pyarrow's objects.
    gc.freeze()
    return code


def _environment(launch: Launch | None) -> dict[str, str]:
    environment = dict(os.environ)
    if launch is not None:
        environment["PROBE_RUN"] = str(launch.run)
        paths = [str(_BOOT), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _import_early() -> None:
    """What the report needs, while the command runs: else its end would wait for it."""

    def load() -> None:
        with contextlib.suppress(Exception):
            # scipy.special takes 0.3 s; every estimate needs it.
            for name in ("..report.build.report", "..report.formats.text", "scipy.special"):
                import_module(name, __package__)

    threading.Thread(target=load, daemon=True).start()


def _print_report(run: Path, sealed: bool) -> None:
    from ..report.build import report_of

    try:
        print(f"\n{report_of(run)}", file=sys.stderr)
        unsealed = "" if sealed else "   (its files are still being closed)"
        print(f"\nagain          probe report {run}{unsealed}", file=sys.stderr)
        print(f"in a browser   probe dashboard {run.parent}", file=sys.stderr)
    except ProbeError as error:
        _say(str(error))


def _say(line: str) -> None:
    print(f"phasewatt: {line}", file=sys.stderr, flush=True)
