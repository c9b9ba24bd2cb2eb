"""The recorder's loop: follow the members, drain their rings, collect readings, store all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import Clock
from ..small_process import stay_small
from ..store import files, layout
from ..store.live import ViewerWatch
from ..store.members import Member
from ..store.run_fields import RunFields
from ..store.runs import status_file
from .fault_guard import DiskGuard, TaskGuard
from .job_end import has_ended, job_ended, outcome_of
from .members import MemberWatch
from .schedule import TICK_S, Schedule, Timer
from .sensors.node_sensors import NodeSensors

if TYPE_CHECKING:
    from .drain import RingDrain
    from .pipeline.storage import StorageStage
    from .run_file import NodeState

LOOK_S = 0.5
FLUSH_S = 0.8  # samples up to 1 s before any kill are on disk
SYNC_S = 10.0
TIDY_S = 300.0  # as often as segments are closed
STATUS_S = 5.0
RUN_FILE_S, RUN_FILE_AGAIN_S = 60.0, 0.2  # how long, and how often, it is tried to be read
RANKS_WAIT_S = 1.0  # for the other local ranks, before sensors choose their devices
LATE_RANKS_S = 30.0
TAIL_S = 0.25  # after the end, for the update of the energy counters that covers it


class Recorder:
    """Serves one run on one node under a fencing number."""

    def __init__(
        self,
        run: Path,
        epoch: int,
        clock: Clock,
        open_sensors: Callable[[Path, Iterable[Member], Clock], NodeSensors] = NodeSensors,
    ):
        self._run, self._epoch, self._clock = run, epoch, clock
        self._open_sensors = open_sensors
        # Fencing numbers are claimed one after the other.
        self._next_lease = str(layout.lease_path(run, epoch + 1))
        self._watch = MemberWatch(run, clock)
        self._begin_ns = clock.now_ns()
        self._disk = DiskGuard()
        self._task = TaskGuard()

    def _read_run_file(self) -> RunFields:
        """run.json, which says whose the run is: where edges belong depends on it.

        It was there before this process was. While the disk refuses to read it, rings hold what
        fits; after a minute a successor tries again. One that is damaged, or has vanished with its
        directory, is taken for this host's.

        Raises:
            OSError: it cannot be read.
        """
        end_s = self._clock.monotonic_s() + RUN_FILE_S
        damaged: list[Path] = []
        while True:
            meta = files.read_fields(self._run / layout.RUN_FILE, damaged=damaged.append)
            if meta is not None or damaged or not self._run.is_dir():
                return meta or {"host": layout.node_name()}
            if self._clock.monotonic_s() > end_s:
                raise OSError(f"{self._run / layout.RUN_FILE} cannot be read")
            self._clock.sleep(RUN_FILE_AGAIN_S)

    def serve(self) -> None:
        """Record until every member of this node has ended, then finalise."""
        self._await_members()
        self._sensors = self._open_sensors(self._run, self._watch.members.values(), self._clock)
        # Heavy imports only now: the meters are already being read.
        stay_small()
        from .drain import warm_up
        from .hangs.watch import HangWatch
        from .pipeline.pipeline import Pipeline
        from .rings import Rings
        from .run_file import RunFile
        from .sealer import Sealer
        from .servers.dashboard import DashboardServer
        from .servers.metrics import MetricsServer
        from .trainings import TrainingFiles
        from .upkeep.upkeep import Upkeep, fence_of

        warm_up()
        run, epoch, clock = self._run, self._epoch, self._clock
        meta = self._read_run_file()
        guest = None if meta.get("host") == layout.node_name() else layout.node_name()
        status = files.read_fields(status_file(run)) or {}
        begin_ns = int(status.get("begin_ns", self._begin_ns))
        self._pipeline = Pipeline(run, epoch, begin_ns, clock, self._disk, self._beat)
        self._rings = Rings(run, epoch, clock, self._disk, self._pipeline.edges, guest)
        self._metrics = MetricsServer(run, meta.get("prometheus"), clock)
        self._dashboard = DashboardServer(run, None if guest else meta.get("dashboard"))
        self._run_file = RunFile(run, epoch, clock)
        self._hangs = HangWatch(run, clock, status.get("warnings") or ())
        fence = fence_of(run, epoch)
        self._sealer = Sealer(clock, Upkeep(run, epoch, fence, guest), fence)
        self._trainings = TrainingFiles(run)
        if epoch > 1:
            with self._disk():
                self._run_file.reopen()
                self._pipeline.forget_summary()
            self._pipeline.note_hole()
        if self._record():
            self._finish()

    def _await_members(self) -> None:
        deadline_s = self._clock.monotonic_s() + RANKS_WAIT_S
        while self._clock.monotonic_s() < deadline_s:
            with self._task():
                self._watch.refresh()
            ranks = [m for m in self._watch.members.values() if m.role == "rank"]
            launchers = len(self._watch.members) - len(ranks)
            if launchers or (ranks and len(ranks) >= ranks[0].local_world_size):
                return
            self._clock.sleep(0.01)

    def _record(self) -> bool:
        """True once the job has ended; False if a newer recorder took over."""
        clock, pipeline, rings, task = self._clock, self._pipeline, self._rings, self._task
        schedule = Schedule(
            clock.monotonic_s(), scraped=self._metrics.wanted, expected=self._dashboard.wanted
        )
        viewers = ViewerWatch(self._run)
        look, drain, flush, page, status = (Timer() for _ in range(5))
        sync = Timer(clock.monotonic_s() + SYNC_S)
        tidy = Timer(clock.monotonic_s() + TIDY_S)
        while True:
            # What is due between two ticks is done at the nearer one.
            now_s = clock.monotonic_s() + TICK_S / 2
            if look.due(now_s, LOOK_S):
                if self._fenced():
                    return False
                with task():
                    self._look_around()
                    schedule.look(viewers.active(now_s))
            backlogged = rings.backlogged()
            if drain.due(now_s, schedule.drain_s, early=backlogged or rings.just_closed()):
                with task():
                    self._drain()
            if flush.due(now_s, FLUSH_S):
                with task():
                    self._flush()
            if page.due(now_s, schedule.page_s):
                with task():
                    self._publish()
            if sync.due(now_s, SYNC_S):
                with task():
                    self._sync()
            if tidy.due(now_s, TIDY_S):
                with task():
                    self._sealer.tidy()
            if schedule.attribution_due(now_s, crowded=pipeline.crowded):
                with task():
                    self._attribute(estimate=schedule.estimate_due(now_s))
                    if schedule.save_due(now_s):
                        pipeline.save(self._members)
            if status.due(now_s, STATUS_S, early=self._hangs.has_news()):
                with task(), self._disk():
                    self._run_file.write_status(self._state())
            if job_ended(self._watch, rings.drains, late=self._late()):
                return True
            wait_s = schedule.wait_s(
                clock.monotonic_s(), small=rings.small(), backlogged=backlogged
            )
            failures = task.failures
            with task():
                self._watch.wait(wait_s)
            if task.failures > failures:  # it did not wait
                clock.sleep(wait_s)

    @property
    def _members(self) -> list[Member]:
        return list(self._watch.members.values())

    def _fenced(self) -> bool:
        """True once a newer recorder took over: this one must not write another byte."""
        return os.path.exists(self._next_lease)

    def _beat(self) -> None:
        """During long work: the recorder lives, unless another one has taken over."""
        if not self._fenced():
            self._rings.beat()

    def _late(self) -> bool:
        return self._clock.now_ns() - self._begin_ns > LATE_RANKS_S * 1e9

    def _look_around(self) -> None:
        if self._watch.refresh():
            self._sensors.members_changed(self._members)
        self._rings.find(self._members)
        self._release()
        self._metrics.poll()
        self._pipeline.search_on()
        self._look_for_hangs()

    def _look_for_hangs(self) -> None:
        self._hangs.look(self._watch, self._rings.drains, self._drain)

    def _release(self) -> None:
        """Trainings that ended while their `probe run` goes on: a sweep may have thousands."""
        watch, rings = self._watch, self._rings
        if not any(m.role == "launcher" for m in self._members):
            return
        ended = [m for m in self._members if m.seat >= 0 and has_ended(m, watch, rings.drains)]
        with self._disk():
            for drain in rings.of(ended):
                self._pipeline.lost(drain.finish())
                self._sealer.take(drain.close())
                drain.seal(complete=True, remove=True)
        with self._disk():
            self._trainings.update(watch, rings.drains, self._clock.now_ns())

    def _drain(self) -> None:
        self._pipeline.lost(self._rings.drain())

    def _take_readings(self) -> None:
        self._pipeline.feed(self._sensors.new_sources(), self._sensors.take())

    def _flush(self) -> None:
        if self._fenced():
            return
        self._take_readings()
        with self._disk():
            self._pipeline.storage.flush()
        self._rings.hold(refused=self._disk.refuses())

    def _publish(self) -> None:
        if self._fenced():
            return
        self._take_readings()
        self._pipeline.publish(self._rings, self._rings.names())

    def _sync(self) -> None:
        with self._disk():
            self._sealer.take(self._pipeline.storage.sync())
            for drain in self._rings.unsealed():
                self._sealer.take(drain.sync())

    def _attribute(self, *, estimate: bool) -> None:
        self._drain()  # of all rings, or the marks of one would come after they are settled
        self._pipeline.advance(self._members)
        if estimate:
            self._pipeline.estimate()

    def _state(self) -> NodeState:
        from .run_file import NodeState

        problems = [
            *self._pipeline.warnings(),
            *self._metrics.problems(),
            *self._dashboard.problems(),
            *self._hangs.warnings(),
        ]
        sources = self._pipeline.storage.sources()
        return NodeState(self._sensors, sources, list(self._rings), self._members, problems)

    def _finish(self) -> None:
        end_ns = self._clock.now_ns()
        for duty in (
            self._stop_sensors,
            self._watch.refresh,  # what the trainers wrote at their end
            self._take_readings,
            lambda: self._rings.find(self._members),
            self._release,
            lambda: self._pipeline.lost(self._rings.drain(final=True)),
            self._look_for_hangs,
            lambda: self._hangs.tidy(self._members),
            self._pipeline.storage.flush,
        ):
            with self._task():
                duty()
        if self._fenced():
            return
        tables: list[StorageStage | RingDrain] = [self._pipeline.storage, *self._rings.unsealed()]
        for table in tables:
            with self._task():
                self._sealer.take(table.close())
        outcome = outcome_of(self._rings.drains, self._watch, end_ns)
        with self._task():
            self._pipeline.finish(self._members, list(self._rings), outcome.end_ns)
        with self._task():
            self._pipeline.publish(self._rings, self._rings.names(), final=True)
        failures = self._task.failures
        with self._task():
            self._run_file.finalise(
                self._state(),
                outcome,
                lambda: self._trainings.finalise(self._watch, self._rings.drains, end_ns, outcome),
            )
        sealed = self._task.failures == failures
        # An edge that is only in its ring stays there while the run's directory exists.
        gone = not self._run.is_dir()
        for drain in self._rings.unsealed():
            with self._task():
                drain.seal(complete=sealed and not drain.pending, remove=gone or not drain.pending)
        # The trainer has been let go: hot segments read the same, and a manifest may be late.
        self._sealer.finish()
        with self._task():
            if not self._fenced():
                self._run_file.add_manifest()
        self._metrics.linger()

    def _stop_sensors(self) -> None:
        if self._sensors.has_counters():
            deadline_s = self._clock.monotonic_s() + TAIL_S
            while self._clock.monotonic_s() < deadline_s:
                self._clock.sleep(0.02)
                self._rings.beat()
        self._sensors.stop()
