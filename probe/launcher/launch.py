"""``probe run -- python train.py``: measure a command from outside, pass everything through.

The command keeps its terminal, its standard streams, its arguments and its process
group. Signals sent to us are forwarded (those of the terminal reach it anyway), and
its exit code or signal becomes ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence

from ..clock import MACHINE_CLOCK
from ..errors import StoreError, UsageError
from ..ring.layout import EndCode, Record
from ..session.jobs.batch_job import scheduler_fields
from ..session.jobs.job import current_job, device_request
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
from .closing import SEAL_S, import_early, print_end, say
from .pass_through import pass_through
from .script import script_environment
from .task import run_task
from .unrecorded import seal_unrecorded

_RECORDER_AFTER_S = 0.1  # a shorter command ends before any meter could be opened
_IMPORTS_AFTER_S = 3.0  # when the script has started
_NOT_AWAITED_S = (
    3.0  # of a command that was shorter, a recorder that is not up yet has read nothing
)


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
                "scheduler": scheduler_fields(),
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
            say(f"dashboard at {address(dashboard, self.run.name)}")
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
            say(f"the recorder cannot be started: {error.strerror or error}")

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
        return self._supervisor.await_seal(SEAL_S)


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
    job = current_job()
    if job.world_size > 1:
        return run_task(command, job, directory=directory, name=name, quiet=quiet)
    launch: Launch | None = None
    try:
        launch = Launch(command, directory=directory, name=name)
    except (StoreError, OSError) as error:
        say(f"{error}; the command runs unwatched")
    environment = os.environ if launch is None else script_environment(PROBE_RUN=str(launch.run))
    duties = [(_RECORDER_AFTER_S, launch.start_recorder)] if launch is not None else []
    if launch is not None and not quiet:
        duties.append((_IMPORTS_AFTER_S, import_early))
    try:
        code = pass_through(command, environment, duties)
    except OSError as error:
        if launch is not None:
            launch.finish(127)
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror}") from None
    if launch is not None:
        # The command has ended: whatever happens to its report, its exit code is ours.
        try:
            if not quiet and launch.recorded:
                import_early()
            sealed = launch.finish(code)
            if not quiet:
                print_end(launch.run, sealed=sealed)
        except (Exception, KeyboardInterrupt) as error:
            with contextlib.suppress(Exception):
                why = f"{type(error).__name__}: {error}"
                say(f"no report: {why}. Try `probe report {launch.run}`")
    return code
