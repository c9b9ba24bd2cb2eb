"""The recorder's loop: who lives, what they wrote, what the hardware says, onto disk."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import MonotonicClock
from ..errors import StoreError
from ..model import Gap
from ..ring.layout import PHASE_OF_CODE, EndCode
from ..store import files, layout
from ..store.live import Looking
from ..store.members import Member
from ..store.runs import status_file
from .members import MemberWatch
from .schedule import TICK_S, Cadence
from .sensor_threads import Sensing

if TYPE_CHECKING:
    from ..timeline.span_table import SpanTable
from ..timeline.span_table import Rows

LOOK_S = 0.5
SHORT_TICK_S = 0.005
FLUSH_S = 0.8  # samples up to 1 s before any kill are on disk
SCRAPED_PAGE_S = 0.25  # an old one would falsify rates over short windows
SYNC_S = 10.0
STATUS_S = 5.0
RANKS_WAIT_S = 1.0  # for the other local ranks, before sensors choose their devices
LATE_RANKS_S = 30.0
TAIL_S = 0.25  # after the end, for the update of the energy counters that covers it


class Recorder:
    """Serves one run on one node under a fencing number."""

    def __init__(self, run: Path, epoch: int):
        self._run, self._epoch, self._clock = run, epoch, MonotonicClock()
        # Fencing numbers are claimed one after the other.
        self._next_lease = str(layout.lease_path(run, epoch + 1))
        self._watch = MemberWatch(run)
        self._begin_ns = self._clock.now_ns()
        self._disk_error = ""

    def serve(self) -> None:
        """Record until every member of this node has ended, then finalise."""
        self._await_members()
        self._sensing = Sensing(self._run, self._watch.members.values(), self._clock)
        # Heavy imports only now: the meters are already being read.
        from .drain import RingDrain, warm_up
        from .live.page import Publisher
        from .pipeline.attribution import Attributing
        from .pipeline.storage import SampleStore
        from .pipeline.summary import Summaries
        from .pipeline.timelines import Timelines
        from .run_file import Finale
        from .sealer import Sealer
        from .servers.dashboard import Companion
        from .servers.metrics import Serving

        warm_up()
        self._drain_kind = RingDrain
        self._drains: dict[Path, RingDrain] = {}
        self._samples = SampleStore(self._run, self._epoch)
        meta = files.read_json(self._run / layout.RUN_FILE) or {}
        here = meta.get("host") == layout.node_name()
        self._guest = None if here else layout.node_name()
        began = files.read_json(status_file(self._run)) or {}
        begin_ns = int(began.get("begin_ns", self._begin_ns))
        self._attributing = Attributing(self._run, begin_ns)
        self._timelines = Timelines()
        self._summaries = Summaries(self._run, begin_ns)
        self._publisher = Publisher(self._run, begin_ns)
        self._serving = Serving(self._run, meta.get("prometheus"))
        self._companion = Companion(self._run, meta.get("dashboard") if here else None)
        self._finale = Finale(
            self._run,
            self._epoch,
            self._attributing,
            lambda: [
                *self._timelines.warnings,
                *self._serving.problems(),
                *self._companion.problems(),
            ],
        )
        self._sealer = Sealer()
        if self._epoch > 1:
            self._guard(self._finale.reopen)
            self._note_hole()
        self._loop()

    def _await_members(self) -> None:
        deadline = time.monotonic() + RANKS_WAIT_S
        while time.monotonic() < deadline:
            self._watch.refresh()
            ranks = [m for m in self._watch.members.values() if m.role == "rank"]
            launchers = len(self._watch.members) - len(ranks)
            if launchers or (ranks and len(ranks) >= ranks[0].local_world_size):
                return
            time.sleep(0.01)

    def _loop(self) -> None:
        next_drain = next_flush = next_status = 0.0
        next_sync = time.monotonic() + SYNC_S
        looking = Looking(self._run)
        cadence = Cadence(time.monotonic(), expected=self._serving.wanted or self._companion.wanted)
        next_look = next_page = 0.0
        while True:
            # What is due between two ticks is done at the nearer one.
            now = time.monotonic() + TICK_S / 2
            if now >= next_look:
                next_look = now + LOOK_S
                if self._fenced():
                    return
                if self._watch.refresh():
                    self._sensing.members_changed(self._watch.members.values())
                self._find_rings()
                self._serving.poll()
                cadence.look(looking.lately(now))
            backlogged = any(drain.backlogged() for drain in self._drains.values())
            if now >= next_drain or backlogged or self._anybody_closed():
                self._drain()
                next_drain = now + cadence.page_s
            if now >= next_flush:
                self._flush()
                next_flush = now + FLUSH_S
            if now >= next_page:
                self._tell()
                next_page = now + (SCRAPED_PAGE_S if self._serving.wanted else cadence.page_s)
            if now >= next_sync:
                self._guard(self._sync)
                next_sync = now + SYNC_S
            if cadence.attributes(now, crowded=self._timelines.crowded):
                self._attribute()
                if cadence.estimates(now):
                    self._estimate()
                if cadence.seals(now):
                    self._guard(self._save_statistics)
            if now >= next_status:
                self._guard(self._write_status)
                next_status = now + STATUS_S
            if self._all_ended():
                self._finish()
                return
            small = any(drain.small for drain in self._drains.values())
            self._watch.wait(
                SHORT_TICK_S if backlogged else cadence.wait_s(time.monotonic(), small=small)
            )

    def _fenced(self) -> bool:
        """True once a newer recorder took over: this one must not write another byte."""
        return os.path.exists(self._next_lease)

    def _find_rings(self) -> None:
        for member in list(self._watch.members.values()):
            for index, path in enumerate(member.ring_paths()):
                if path in self._drains:
                    continue
                with contextlib.suppress(StoreError):
                    self._drains[path] = self._drain_kind(
                        self._run,
                        member.rank if member.role == "rank" else -1,
                        path,
                        epoch=self._epoch,
                        main=index == 0,
                        told=self._drained,
                        guest=self._guest,
                    )
        self._beat()

    def _beat(self) -> None:
        now = self._clock.now_ns()
        for drain in self._drains.values():
            drain.beat(now, epoch=self._epoch, pid=os.getpid())

    def _anybody_closed(self) -> bool:
        return any(d.closed and d.ended is None for d in self._drains.values())

    def _drain(self) -> None:
        for drain in self._drains.values():
            self._guard(lambda d=drain: self._samples.add(d.drain()))

    def _flush(self) -> None:
        if self._fenced():
            return
        self._take_readings()
        self._guard(self._samples.flush)

    def _tell(self) -> None:
        if self._fenced():
            return
        self._take_readings()
        self._guard(self._publish)

    def _attribute(self) -> None:
        self._drain()  # of all rings, or the marks of one would come after they are settled
        self._hand_on(self._clock.now_ns())
        self._attributing.advance(self._watch.members.values())
        self._guard(lambda: self._summaries.advance(self._watch.members.values()))

    def _estimate(self) -> None:
        self._publisher.estimates(
            self._attributing, self._clock.now_ns(), self._summaries.on_device()
        )

    def _save_statistics(self) -> None:
        self._attributing.save(self._watch.members.values(), self._timelines)

    def _publish(self, *, final: bool = False) -> None:
        names: dict[int, dict[int, str]] = {}
        for drain in self._drains.values():
            names.setdefault(drain.rank, {**PHASE_OF_CODE}).update(drain.names)
        self._publisher.publish(self._clock.now_ns(), self._drains.values(), names, final=final)

    def _drained(self, rank: int, ring: str, rows: Rows, table: SpanTable | None) -> None:
        self._timelines.add(rank, ring, rows, table)
        if table is not None:
            self._publisher.spans(rank, table)

    def _hand_on(self, now_ns: int | None) -> None:
        settled = self._timelines.take(now_ns)
        self._attributing.spans(settled, self._timelines.lost)
        self._summaries.spans(settled)

    def _take_readings(self) -> None:
        sources = self._sensing.new_sources()
        self._guard(lambda: self._samples.register(sources))
        if sources:
            self._attributing.open(sources)
            self._summaries.open(sources)
            self._publisher.open(sources)
        readings = self._sensing.take()
        self._samples.add(readings)
        self._attributing.readings(readings)
        self._summaries.readings(readings)
        self._publisher.readings(readings)

    def _sync(self) -> None:
        self._sealer.take(self._samples.sync())
        for drain in self._drains.values():
            self._sealer.take(drain.sync())

    def _write_status(self) -> None:
        self._finale.write_status(
            self._sensing, self._samples, self._drains.values(), self._watch.members.values()
        )

    def _guard(self, action: object) -> None:
        """Disk trouble never stops the recorder: it is said once and tried again."""
        try:
            action()  # type: ignore[operator]
        except OSError as error:
            if str(error) != self._disk_error:
                self._disk_error = str(error)
                print(f"the disk refused: {error}", file=sys.stderr, flush=True)

    def _all_ended(self) -> bool:
        members = list(self._watch.members.values())
        launchers = [m for m in members if m.role == "launcher"]
        if launchers:
            return all(self._ended(m) for m in members)
        if not members:
            return self._clock.now_ns() - self._begin_ns > LATE_RANKS_S * 1e9
        if not all(self._ended(m) for m in members) or self._starts_again(members):
            return False
        # A quick rank may end before a slow one has even begun.
        last = max(m.attempt for m in members)
        latest = [m for m in members if m.attempt == last]
        missing = max(m.local_world_size for m in latest) - len({m.local_rank for m in latest})
        waited = self._clock.now_ns() - self._begin_ns > LATE_RANKS_S * 1e9
        return missing <= 0 or waited or any(m.file_name in self._watch.gone for m in latest)

    def _starts_again(self, members: Sequence[Member]) -> bool:
        """Ranks are gone that their launcher is about to start another time: not the end."""
        last = max(m.attempt for m in members)
        return any(m.attempt == last and m.starts_again() and not self._well(m) for m in members)

    def _well(self, member: Member) -> bool:
        return any(
            drain.ended is not None and drain.ended[1] == EndCode.FINISHED
            for path, drain in self._drains.items()
            if path.name.startswith(member.prefix)
        )

    def _ended(self, member: Member) -> bool:
        if member.file_name in self._watch.gone:
            return True
        return any(
            drain.ended is not None
            for path, drain in self._drains.items()
            if path.name.startswith(member.prefix)
        )

    def _finish(self) -> None:
        end_ns = self._clock.now_ns()
        if self._sensing.has_counters():
            deadline = time.monotonic() + TAIL_S
            while time.monotonic() < deadline:
                time.sleep(0.02)
                self._beat()
        self._sensing.stop()
        self._watch.refresh()  # what the trainers told at their end
        self._take_readings()
        self._find_rings()
        for drain in self._drains.values():
            self._guard(lambda d=drain: self._samples.add(d.finish()))
        self._guard(self._samples.flush)
        if self._fenced():
            return
        for table in (self._samples, *self._drains.values()):
            self._guard(lambda t=table: self._sealer.take(t.close()))
        from .run_file import outcome_of

        outcome = outcome_of(self._drains, self._watch, end_ns)
        members = self._watch.members.values()
        self._hand_on(None)
        self._guard(lambda: self._attributing.save(members, self._timelines, outcome.end_ns))
        if self._epoch == 1:  # else something was recorded that is not in it
            self._guard(
                lambda: self._summaries.save(
                    outcome.end_ns,
                    list(self._drains.values()),
                    members,
                    self._timelines,
                    followed=self._attributing.followed(),
                )
            )
        self._guard(lambda: self._publish(final=True))
        sealed = False
        try:
            self._finale.finalise(self._sensing, self._samples, self._drains, self._watch, outcome)
            sealed = True
        except OSError as error:
            print(f"the run could not be finalised: {error}", file=sys.stderr, flush=True)
        # An edge that is only in its ring stays there, unless nobody could find it again.
        gone = not self._run.is_dir()
        for drain in self._drains.values():
            drain.seal(complete=sealed and not drain.pending, remove=gone or not drain.pending)
        self._sealer.finish()  # the trainer has been let go: hot segments read the same
        self._serving.linger()

    def _note_hole(self) -> None:
        """What the recorder before this one did not sample is a Gap."""
        from ..store.reader import last_sample_ns

        before = last_sample_ns(layout.node_dir(self._run))
        now = self._clock.now_ns()
        self._samples.add([Gap("recorder", before or now, now, "the recorder was restarted")])


__all__ = ["Recorder"]
