"""One watched execution, seen from the training process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..errors import ForeignRunError, StoreError
from ..instrument import PhaseEngine
from ..store.dashboard_address import address, port_for
from ..store.foreign_folder import foreign_line
from ..store.layout import is_default, node_name, runs_dir, stacks_path, training_dir
from ..store.live import Live, read_live
from ..store.members import Member
from ..store.processes import boot_id, process_began_ns, start_ticks
from ..store.run_fields import ProcessFields
from ..store.runs import create_run, new_run_id
from ..store.trainings import is_group
from .jobs.clock_sync import agreed_run_id, meet
from .jobs.job import current_job, device_request
from .jobs.tasks import note_run
from .joining import continued, join
from .messages import commands_for, say, say_to_a_person
from .options import WatchOptions
from .process_info import cards_in_use, process_info, with_added
from .recorder_supervisor import Supervisor
from .ring_files import RingPlace
from .start_fields import start_fields
from .unwatched import ShowsItsReport

if TYPE_CHECKING:
    from ..report.group_model import GroupReport
    from ..report.model import Report
    from .stack_dumps import StackDumps

_CHECK_NS = 1_000_000_000
REPORT_WAIT_S = 20.0


class Run(ShowsItsReport):
    """One watched training, seen from its process: what ``with probe.watch() as run`` gives.

    ``path`` is its directory. No method raises into the training; where nothing can be recorded,
    :class:`probe.watch` gives a stand-in with the same methods, which do nothing.
    """

    path: Path

    def __init__(
        self, options: WatchOptions, model: Any, optimizer: Any, number: int, clock: Clock
    ):
        """Create the run on disk, start its recorder and hook the training.

        Args:
            number: of this process's watches, from 1; the ranks of a job pair them by it.

        Raises:
            StoreError: the run cannot be recorded at all.
        """
        self.depth, self.pid = 0, os.getpid()
        self._number, self._clock = number, clock
        self._options = options
        joined = os.environ.get("PROBE_RUN")
        self._job = current_job(joined=bool(joined))
        self._closed, self._next_check = False, 0
        self._declared: tuple[str, ...] = ()
        self._settings: ProcessFields = {}  # its config since it began
        self._met: ProcessFields = {}  # what :func:`meet` returned about the job's other hosts
        self._joined = join(Path(joined), self._job, options) if joined else None
        self._training = self._joined.number if self._joined is not None else 1
        self.path = Path(joined) if joined else self._resumed() or self._create()
        place = RingPlace(self.path, self._job.rank, number)
        self._engine = PhaseEngine(
            place.open,
            model=model,
            optimizer=optimizer,
            chores=self._chores,
            dither=options.dither,
            modules=options.modules,
            classify=options.classify,
        )
        self._stacks = self._stack_dumps()
        self._member = self._introduce(place)
        self._supervisor = Supervisor(self.path, self._engine.ring, clock)
        try:
            self._member.write(self.path)
            if self._joined is None:
                self._supervisor.start()
                note_run(self.path)
        except OSError as error:
            raise StoreError(f"cannot record into {self.path}: {error.strerror}") from None
        # Below `probe run` the run began before this process imported torch.
        self._engine.install(process_began_ns(self.pid) if joined else 0)

    @property
    def id(self) -> str:
        """The run's id, which is also its directory's name."""
        return self.path.name

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Name what happens inside, as :func:`probe.phase`: ``with run.phase("eval"): …``."""
        return self._engine.phase(name)

    def step(self) -> None:
        """Say that a step ends here, once in each: ``run.step()``.

        Only needed where the training's library is not torch. From the first call on steps end
        nowhere else.
        """
        self._engine.step()

    @property
    def closed(self) -> bool:
        """True once :meth:`close` was called."""
        return self._closed

    def log(self, *metrics: Any, **values: Any) -> None:
        """Record numbers of this step: ``run.log(loss=loss, samples=len(x))``.

        A dictionary of them is taken, too; of anything else the report warns.

        ``samples`` and ``tokens`` are what this rank trained: those of all ranks are added up.
        Values are floats, ints or zero-dimensional tensors (read without a device sync), from any
        thread; a tensor on a GPU from the thread that trains.
        """
        for metric in metrics:
            if isinstance(metric, dict):
                values = {str(name): value for name, value in metric.items()} | values
            else:
                self._engine.warn("log() takes numbers by name: run.log(loss=loss)")
        self._engine.values.log(values)

    def note(self, line: str) -> None:
        """Add a line to the report's notes; for the same line twice nothing happens."""
        self._engine.warn(line)

    def configure(self, settings: Any) -> None:
        """Add to the run's ``config``, secrets hidden: a mapping, a dataclass or a namespace.

        For what is known only after the run has begun. Of the ranks of a job the last one counts.
        """
        if not self._closed and os.getpid() == self.pid:
            self._settings = with_added(self._settings, settings, self._engine.warn)
            self._publish(info=self._info())

    def live(self) -> Live | None:
        """Joules so far and watts now, a second or two old; None before the first live page."""
        return read_live(self.path)

    def report(self) -> Report | GroupReport:
        """The report so far: ``print`` shows it, ``.to_json()`` gives all. Raises StoreError."""
        from ..report.build import report_of

        if self._closed:
            self._supervisor.await_seal(REPORT_WAIT_S)  # it would say that the run goes on
        if self._joined is not None and is_group(self.path):
            return report_of(training_dir(self.path, self._joined.number))
        return report_of(self.path)

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """Unhook, write the last edges and wait (≤ 2 s) until the run is sealed.

        Args:
            failed: whether the watched block failed.
            exit_code: of the process.
            error: why it failed, in one line for the report.
        """
        if self._closed or os.getpid() != self.pid:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._engine.uninstall(failed=failed)
        if self._stacks is not None:
            self._stacks.close()
        reason: ProcessFields = {"error": error} if failed and error else {}
        self._publish(info=self._info() | {"left": True} | reason)
        self._engine.end(failed, exit_code)
        if self._joined is not None and self._joined.looked_after():
            return  # `probe run` waits for the seal
        sealed = self._supervisor.await_seal()
        if not sealed and (why := self._supervisor.why_unsealed()):
            say(why)
        if not sealed and not self.path.is_dir():
            self._engine.remove_rings()  # no recorder will
        if self._engine.ring.refused and not self.path.is_dir():
            say(f"phasewatt: the end of {self.path} is lost: it was moved or removed")
        elif self._engine.ring.refused:
            say(f"phasewatt: the disk refused the end of {self.path}; what was written is kept")
        elif self._job.rank == 0:
            say_to_a_person(f"phasewatt: {self.id} is kept: {commands_for(self.path)}")

    def _resumed(self) -> Path | None:
        """The run that this training continues; None if it begins one."""
        if self._options.resume is None:
            return None
        run = Path(self._options.resume).absolute()
        try:
            self._job = continued(run, self._job)
        except StoreError as error:
            if self._job.rank == 0:
                say(f"phasewatt: not continued: {error}; this is a run of its own")
            return None
        return run

    def _create(self) -> Path:
        options, job = self._options, self._job
        directory = runs_dir(options.dir)
        if job.rank == 0 and is_default(options.dir) and (line := foreign_line(directory)):
            say(line)
        run_id = new_run_id(options.name, self._clock.wall_s())
        if job.key is not None:
            run_id = agreed_run_id(directory, job, self._number, run_id, self._clock, warn=say)
        dashboard = options.dashboard and port_for(directory, options.dashboard)
        fields = start_fields(options, dashboard)
        try:
            run = create_run(directory, run_id, shared=job.key is not None, fields=fields)
        except ForeignRunError as error:
            say(f"phasewatt: {error}: this rank gets a run of its own")
            run_id = new_run_id(options.name, self._clock.wall_s())
            run = create_run(directory, run_id, shared=False, fields=fields)
        if options.simulate is not None:  # before the recorder looks for its meters
            options.simulate(run)
        if dashboard and job.rank == 0:
            say(f"phasewatt: dashboard at {address(dashboard, run_id)}")
        return run

    def _introduce(self, place: RingPlace) -> Member:
        job = self._job
        return Member(
            role="rank",
            rank=job.rank,
            local_rank=job.local_rank,
            local_world_size=job.local_world_size,
            world_size=job.world_size,
            host=node_name(),
            boot_id=boot_id(),
            pid=self.pid,
            start_ticks=start_ticks(self.pid) or 0,
            begin_ns=self._clock.now_ns(),
            rings=str(place.folder),
            prefix=place.prefix,
            request=device_request(self._options.devices, job),
            info=self._info(),
            attempt=job.attempt,
            attempts_left=job.attempts_left,
            launcher=(os.getppid(), start_ticks(os.getppid()) or 0),
            training=self._training,
        )

    def _info(self) -> ProcessFields:
        asked: ProcessFields = {"hang": self._stacks.fields} if self._stacks is not None else {}
        return process_info(self._engine) | self._met | self._settings | asked

    def _stack_dumps(self) -> StackDumps | None:
        """Writes stacks if this process hangs; None without ``hang_after``."""
        if (after_s := self._options.hang_after_s) is None:
            return None
        from .stack_dumps import StackDumps

        return StackDumps(stacks_path(self.path, self._training, self._job.rank), after_s)

    def _chores(self) -> None:
        now = self._clock.now_ns()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_NS
        if line := self._supervisor.check(now):
            say(line)
        if self._stacks is not None:
            self._stacks.put_off()
        if not self._declared:
            self._declare_devices()
        if self._job.nodes > 1 and not self._met:
            self._meet()

    def _meet(self) -> None:
        """Once there is a process group, after the first step: ranks are close together then."""
        met = meet(self._job, self.id, f"clock{self._number}", self._clock)
        if met is None:
            return
        for line in met.pop("warnings", ()):
            self._engine.warn(line)
        self._met = met or {"met": True}
        self._publish(info=self._info())

    def _publish(self, **changes: Any) -> None:
        self._member = dataclasses.replace(self._member, **changes)
        with contextlib.suppress(OSError):
            self._member.write(self.path)

    def _declare_devices(self) -> None:
        """Once CUDA is initialised, tell the recorder which cards this rank really uses."""
        if not self._options.devices and (cards := cards_in_use()):
            self._declared = cards
            self._publish(request=dataclasses.replace(self._member.request, uuids=cards))
