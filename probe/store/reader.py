"""Read a run: what it is, how it stands, its samples, gaps and edges.

Reading never writes. Works on a live run, a finished one, and one whose processes
are all gone, undrained edges in the rings included.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import StoreError
from ..model import Gap, RunStatus, Source
from ..ring.layout import PHASE_OF_CODE, EndCode, Record
from ..ring.reader import RingReader
from ..units import NS_PER_S
from . import files, layout, untrusted
from .clocks import clocks
from .edges import columns_of, edges_of, later, once
from .field_kinds import wrong_field
from .loaded_samples import COUNTS, with_loaded_samples
from .members import Member, read_members
from .node_files import read_gaps, read_names, read_sources
from .processes import boot_id, is_alive, pid_namespace
from .run_fields import RunFields, chosen
from .segment_reader import has_thinned, read_segment, segment_files, table_of
from .segments import LEDGER, SAMPLES
from .steps import between
from .trainings import is_group, place_of

SEVERITY = (
    RunStatus.FINISHED,
    RunStatus.FAILED,
    RunStatus.LOST,
    RunStatus.KILLED,
    RunStatus.RUNNING,
)
# Fields of run.json that describe the job, not the host that made the run.
_OF_JOB = (
    "schema",
    "id",
    "name",
    "country",
    "config",
    "data",
    "target",
    "prometheus",
    "dashboard",
    "job",
    "stack",
    "scheduler",
    "model_hash",
)
# Fields of the group's run.json that hold for each of its trainings, unless it has its own.
_OF_GROUP = (
    "country",
    "scheduler",
    "machine",
    "absent",
    "carbon",
    "carbon_problem",
    "recorder",
    "pid_namespace",
    "torch",
    "code",
    "packages",
)
_EDGES = re.compile(r"edges of rank (\d+)\Z")
FRESH_S = 15.0  # a recorder elsewhere refreshes run.json every 5 s


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one source in order of time; ``value`` is scaled to the source's unit."""

    source: Source
    time_ns: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    span_ns: npt.NDArray[np.int64]


Rings = list[tuple[str, npt.NDArray[np.void]]]
Logged = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]  # (time_ns, value)


class RunReader:
    """What was recorded of a run, before anything is estimated: samples, edges, logged values.

    :func:`probe.open_run` makes one. Times are nanoseconds of a monotonic clock, values in the
    units of their sources (J, W, B, Hz, s). A run of several hosts is read whole, or one host's
    part of it. Every host has its own monotonic clock: the reader of one host uses that host's
    time, the reader of all hosts the time of the host that made the run (``clocks`` has the
    offsets of the others).
    """

    def __init__(self, run: Path, node: str | None = None):
        """Read what the run and its members say of themselves.

        Args:
            node: read only what this host recorded, in its own time.

        Raises:
            StoreError: not a run, or damaged.
            StoreVersionError: written by a newer version.
        """
        self.path, self.node = run, node
        place = place_of(run)
        # Where meters and processes stand; of a training below `probe run`, which one it is.
        self.store: Path = place[0] if place else run
        self.training: int | None = place[1] if place else None
        self.is_group = place is None and is_group(run)
        self.meta: RunFields = files.read_run_file(run)
        self.damaged: set[Path] = set()  # files that could not be read, as far as was tried
        self.made_again: set[Path] = set()  # damaged files whose content follows from raw data
        self.members: list[Member] = self._own(read_members(self.store, self.damaged.add))
        if place is not None:
            group = files.read_run_file(self.store)
            self.meta = chosen(group, _OF_GROUP) | self.meta
        self._home = str(self.meta.get("host", ""))
        self.guests = {
            path.parent.name[5:]: stored
            for path in ([] if place else run.glob("node-*/node.json"))
            if (stored := files.read_fields(path, damaged=self.damaged.add)) is not None
            and wrong_field(stored) is None
        }
        # Ranks write their clocks at once, recorders only with their next status.
        measured: dict[str, RunFields] = {
            m.host: {"clock": m.info["clock"]} for m in self.members if m.info.get("clock")
        }
        self.clocks = clocks(
            self.meta | measured.get(self._home, {}),
            {name: guest | measured.get(name, {}) for name, guest in self.guests.items()},
        )
        if node is not None:
            if node in self.guests:  # the home's status and end are not the guest's
                self.meta = chosen(self.meta, _OF_JOB) | self.guests[node]
            self.members = [member for member in self.members if member.host == node]
        self._last: tuple[int, Rings] | None = None  # (rank, rings) read last, of a run that ended

    def _own(self, members: list[Member]) -> list[Member]:
        """Those of this training, as if it were alone; of a group, `probe run` itself."""
        if self.training is not None:
            return [
                replace(m, training=1)
                for m in members
                if m.role == "rank" and m.training == self.training
            ]
        return [m for m in members if m.role != "rank"] if self.is_group else members

    def hosts(self) -> list[RunReader]:
        """A reader for each host that recorded something, that of rank 0 first."""
        if self.node is not None or not self.guests:
            return [self]
        lowest: dict[str, int] = {}
        for member in self.members:
            lowest[member.host] = min(member.rank, lowest.get(member.host, member.rank))
        return [
            RunReader(self.path, name)
            for name in sorted(
                {self._home, *self.guests}, key=lambda name: (lowest.get(name, 1 << 30), name)
            )
        ]

    @property
    def id(self) -> str:
        """The run's directory name."""
        return str(self.meta.get("id", self.path.name))

    @property
    def status(self) -> RunStatus:
        """How the run stands, derived where its end was never written.

        Of several hosts the worst status counts, once none of them is running.
        """
        if self.node is None and self.guests:
            return max((host.status for host in self.hosts()), key=SEVERITY.index)
        written = RunStatus(self.meta.get("status", RunStatus.RUNNING))
        if written is not RunStatus.RUNNING:
            return written
        same_host = self.meta.get("host") == layout.node_name()
        same_boot = self.meta.get("boot_id") == boot_id()
        if same_host and not same_boot:
            return RunStatus.LOST
        if not same_host or self.meta.get("pid_namespace") not in (None, pid_namespace()):
            return RunStatus.RUNNING if self._fresh() else RunStatus.LOST
        if self.training is not None:
            return self._status_of_training()
        alive = any(member.alive() for member in self.members) or self._recorder_alive()
        if alive or (not self.members and self._fresh()):
            return RunStatus.RUNNING
        return RunStatus.KILLED

    def _status_of_training(self) -> RunStatus:
        """Of one whose recorder has not said yet, or never will, how it ended."""
        if any(member.alive() for member in self.members):
            return RunStatus.RUNNING
        ends = [r[r["kind"] == Record.END]["code"] for _, r in self.rings()]
        codes = [int(code) for of_ring in ends for code in of_ring]
        if codes:
            finished = all(code == EndCode.FINISHED for code in codes)
            return RunStatus.FINISHED if finished else RunStatus.FAILED
        return RunStatus.KILLED

    @property
    def begin_ns(self) -> int:
        """When the watched block was entered; of several hosts, on the first of them."""
        if self.node is None and self.guests:
            return min(host.begin_ns + host.ahead_ns for host in self.hosts())
        return int(self.meta["begin_ns"])

    def end_ns(self) -> int:
        """When it was left; for a live or killed run the last thing that is known."""
        if self.node is None and self.guests:
            return max(host.end_ns() + host.ahead_ns for host in self.hosts())
        if self.meta.get("end_ns"):
            return int(self.meta["end_ns"])
        times = [self.begin_ns, int(self.meta.get("alive_ns") or 0)]
        if self.training is not None and self.status is not RunStatus.RUNNING:
            return max([self.begin_ns, *(int(r["time_ns"][-1]) for _, r in self.rings() if len(r))])
        if self.status is RunStatus.RUNNING and self.meta.get("boot_id") == boot_id():
            return time.monotonic_ns()
        times += [last_sample_ns(node) or 0 for node in self.nodes()]
        times += [int(r["time_ns"][-1]) for _, r in self.rings() if len(r)]
        return max(times)

    def since_begin_s(self, host: RunReader) -> float:
        """When a host of this run began, in seconds since the run's begin."""
        return (host.begin_ns + host.ahead_ns - self.begin_ns) / NS_PER_S

    def nodes(self) -> list[Path]:
        """The directories of the nodes' recorders."""
        folders = self.store.glob(f"node-{self.node or '*'}")
        return sorted(folder for folder in folders if untrusted.is_trusted_folder(folder))

    @property
    def ahead_ns(self) -> int:
        """What to add to the times of a reader of one host for the job's."""
        return self.clocks[self.node].offset_ns if self.node in self.clocks else 0

    def ahead_of(self, node: Path) -> int:
        """What to add to the times in a host's directory for those of this reader."""
        return self._ahead_ns(node.name[5:])

    def _ahead_ns(self, node: str) -> int:
        return self.clocks[node].offset_ns if self.node is None and node in self.clocks else 0

    def series(self) -> list[Series]:
        """Samples of every source of every node, in order of time."""
        series = []
        for node in self.nodes():
            sources = read_sources(node)
            if self.node is None and self.guests:  # every host has a gpu0
                sources = [replace(s, device=f"{node.name[5:]}/{s.device}") for s in sources]
            table = columns_of(node, "samples", SAMPLES, self.damaged.add)
            order = np.argsort(table["time_ns"], kind="stable")
            table = {name: column[order] for name, column in table.items()}
            table["time_ns"] = table["time_ns"] + self.ahead_of(node)
            for index, source in enumerate(sources):
                chosen = table["source"] == index
                series.append(
                    Series(
                        source,
                        table["time_ns"][chosen].astype(np.int64),
                        table["value"][chosen] * source.scale,
                        table["span_ns"][chosen].astype(np.int64),
                    )
                )
        return series

    def gaps(self) -> list[Gap]:
        """Everything that should have been recorded and was not."""
        gaps = []
        for node in self.nodes():
            ahead = self.ahead_of(node)
            gaps += [
                replace(gap, begin_ns=gap.begin_ns + ahead, end_ns=gap.end_ns + ahead)
                for gap in read_gaps(node, self.damaged.add)
            ]
        return self._own_gaps(joined_gaps(gaps))

    def _own_gaps(self, gaps: list[Gap]) -> list[Gap]:
        """Of one training those in its time, its edges' by its own ranks' names."""
        if self.training is None:
            return [gap for gap in gaps if not (self.is_group and _EDGES.match(gap.what))]
        begin_ns, end_ns = self.begin_ns, self.end_ns()
        own = []
        for gap in gaps:
            edges = _EDGES.match(gap.what)
            if edges is not None:
                before, rank = divmod(int(edges[1]), layout.SEATS)
                if before + 1 == self.training:
                    own.append(replace(gap, what=f"edges of rank {rank}"))
            elif gap.begin_ns <= end_ns and gap.end_ns >= begin_ns:
                own.append(gap)
        return own

    def ranks(self) -> list[int]:
        """Ranks that recorded edges."""
        if self.is_group:
            return []
        ranks = {
            int(folder.name[5:])
            for base, _ in self._places()
            for folder in base.glob("rank-*")
            if folder.name[5:].isdecimal() and untrusted.is_trusted_folder(folder)
        }
        return sorted(ranks | {m.rank for m in self.members if m.role == "rank"})

    def _places(self) -> list[tuple[Path, str]]:
        """Where ranks' edges lie, and on which host they were recorded."""
        base = self.store if self.training == 1 else self.path
        places = [(base, self._home)] if self.node in (None, self._home) else []
        return places + [
            (layout.node_dir(self.path, guest), guest)
            for guest in self.guests
            if self.node in (None, guest)
        ]

    def folders(self, rank: int) -> list[tuple[Path, int]]:
        """Where a rank's edges lie, and what to add to their times.

        There are several folders after the rank was restarted on another host.
        """
        folders = []
        for base, host in self._places():
            folder = layout.rank_dir(base, rank)
            if untrusted.is_trusted_folder(folder):
                folders.append((folder, self._ahead_ns(host)))
        return folders

    def rings(self, rank: int | None = None) -> Rings:
        """(ring name, edges) of each thread, the main thread's first; all ranks or one."""
        over = self.meta.get("status") != RunStatus.RUNNING
        if over and self._last is not None and self._last[0] == rank:
            return self._last[1]
        rings = self._read_rings(rank)
        if over and rank is not None:
            self._last = rank, rings  # a rank is mostly read several times in a row
        return rings

    def rings_between(self, rank: int, begin_ns: int, end_ns: int) -> Rings:
        """As :meth:`rings`, but only edges in [begin, end]; other sealed segments are not read."""
        return self._read_rings(rank, (begin_ns, end_ns))

    def _read_rings(self, rank: int | None, part: tuple[int, int] | None = None) -> Rings:
        rings_of: dict[tuple[int, str], list[npt.NDArray[np.void]]] = {}
        for r in self.ranks() if rank is None else [rank]:
            for folder, ahead_ns in self.folders(r):
                for name in sorted({p.stem.split("-")[1] for p in segment_files(folder, "edges")}):
                    rings_of[r, name] = [
                        edges_of(folder, f"edges-{name}", part, ahead_ns, self.damaged.add)
                    ]
        for r, name, rows in self._undrained():
            if rank is None or r == rank:
                if part is not None:
                    rows = rows[(rows["time_ns"] >= part[0]) & (rows["time_ns"] <= part[1])]
                rings_of.setdefault((r, name), []).append(rows)
        return [(name, once(parts)) for (_, name), parts in sorted(rings_of.items())]

    def names(self, rank: int, ring: str) -> dict[int, str]:
        """Phase and metric names of a ring by code."""
        names = dict(PHASE_OF_CODE)
        for folder, _ in self.folders(rank):
            names |= read_names(folder, ring, self.damaged.add)
        for path in self._ring_paths():
            if path.stem.rpartition("-")[2] == ring:
                try:
                    reader = RingReader(path, read_only=True)
                except StoreError:
                    continue
                names |= reader.names()
                reader.close()
        return names

    def values(self, rank: int = 0) -> dict[str, Logged]:
        """What ``run.log`` recorded: name → (time_ns, value); see :mod:`loaded_samples`."""
        rings = self.rings(rank)
        recorded = self._recorded(rank, rings, Record.VALUE, np.float64)
        steps = sum(int((rows["kind"] == Record.STEP).sum()) for _, rows in rings)
        return with_loaded_samples(recorded, lambda logged: len(logged[0]), steps)

    def logged(self) -> dict[str, Logged]:
        """What the job logged: as its first rank did, but counts are those of all ranks."""
        ranks = self.ranks()
        logged = self.values(ranks[0]) if ranks else {}
        for rank in ranks[1:]:
            for name, values in self.values(rank).items():
                if name in COUNTS:
                    logged[name] = _merged(logged[name], values) if name in logged else values
        return logged

    def steps_ns(self, rank: int = 0) -> npt.NDArray[np.int64]:
        """When a rank's steps closed; of thinned segments evenly between those that are kept."""
        steps = [self.closed_steps(rank, rows) for _, rows in self.rings(rank)]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *steps]))

    def closed_steps(self, rank: int, rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """When the steps in some edges of a rank closed: see :meth:`steps_ns`."""
        closed = rows[rows["kind"] == Record.STEP]
        time_ns: npt.NDArray[np.int64] = closed["time_ns"].astype(np.int64)
        if any(has_thinned(folder, "edges") for folder, _ in self.folders(rank)):
            return between(time_ns, closed["payload"].astype(np.int64))
        return time_ns

    def allocator(self, rank: int = 0) -> dict[str, Logged]:
        """What torch's GPU allocator held at step boundaries: name → (time_ns, bytes).

        The names are ``allocated``, ``reserved`` and ``peak``.
        """
        return self._recorded(rank, self.rings(rank), Record.MEMORY, np.int64)

    def _recorded(
        self, rank: int, rings: Rings, kind: Record, type_: type[np.float64] | type[np.int64]
    ) -> dict[str, Logged]:
        by_name: dict[str, list[npt.NDArray[np.void]]] = {}
        for ring, rows in rings:
            records = rows[rows["kind"] == kind]
            names = self.names(rank, ring)
            for code in np.unique(records["code"]):
                name = names.get(int(code), f"value-{code}")
                by_name.setdefault(name, []).append(records[records["code"] == code])
        joined = {name: np.concatenate(parts) for name, parts in by_name.items()}
        return {
            name: (rows["time_ns"].astype(np.int64), rows["payload"].copy().view(type_))
            for name, rows in joined.items()
        }

    def ledger(self, rank: int = 0) -> pa.Table:
        """Step × phase of a rank: count and nanoseconds; after a week phase × 10 s."""
        tables = [
            table_of(folder, "ledger", LEDGER, self.damaged.add) for folder, _ in self.folders(rank)
        ]
        return pa.concat_tables([LEDGER.empty_table(), *tables])

    def _recorder_alive(self) -> bool:
        recorder = self.meta.get("recorder") or {}
        return is_alive(int(recorder.get("pid", -1)), int(recorder.get("start_ticks", -1)))

    def _fresh(self) -> bool:
        try:
            file = self.path / layout.RUN_FILE
            if self.node not in (None, self._home):
                file = layout.node_file(self.path, self.node)
            age = time.time() - file.stat().st_mtime
        except OSError:
            return False
        return age < FRESH_S

    def _ring_paths(self) -> list[Path]:
        if self.meta.get("status") != RunStatus.RUNNING or self.meta.get("boot_id") != boot_id():
            return []
        return [path for member in self.members for path in member.ring_paths(self.store)]

    def _undrained(self) -> list[tuple[int, str, npt.NDArray[np.void]]]:
        undrained = []
        for member in self.members:
            here = member.host == layout.node_name() and member.boot_id == boot_id()
            if member.role != "rank" or not here:
                continue
            if self.meta.get("status") != RunStatus.RUNNING:
                continue
            for path in member.ring_paths(self.store):
                try:
                    reader = RingReader(path, read_only=True)
                except StoreError:
                    continue
                rows = later(reader.read().rows, self._ahead_ns(member.host))
                undrained.append((member.rank, path.stem.rpartition("-")[2], rows))
                reader.close()
        return undrained


def joined_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """The gaps, those that go on where another of the same meter and reason ended as one."""
    joined: list[Gap] = []
    last: dict[tuple[str, str], int] = {}  # where the last gap of a meter and reason stands
    for gap in gaps:
        place = last.get((gap.what, gap.reason))
        if place is not None and joined[place].end_ns == gap.begin_ns:
            before = joined[place]
            joined[place] = replace(before, end_ns=gap.end_ns, count=before.count + gap.count)
        else:
            last[gap.what, gap.reason] = len(joined)
            joined.append(gap)
    return joined


def _merged(columns: Logged, other: Logged) -> Logged:
    """Values of two ranks in order of time, (n + m,)."""
    time_ns, values = (np.concatenate([a, b]) for a, b in zip(columns, other, strict=True))
    order = np.argsort(time_ns, kind="stable")
    return time_ns[order].astype(np.int64), values[order].astype(np.float64)


def last_sample_ns(node: Path) -> int | None:
    """Time of the newest sample on disk, from the last segment only."""
    for path in reversed(segment_files(node, "samples")):
        newest = [int(batch.column("time_ns").to_numpy().max()) for batch in read_segment(path)]
        if newest:
            return max(newest)
    return None
