"""The spans of a run, rank by rank, with names, on the host or the device clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..attribution.arrays import Times
from ..model import Phase
from ..ring.layout import TRAINING_THREAD, Code, Record
from ..store.reader import RunReader
from .device_times import on_device
from .optimizer_steps import OptimizerCounter, OptimizerSteps
from .phase_totals import PhaseCounter, PhaseTotals
from .span_table import Rows, SpanTable
from .spans import decode
from .step_times import StepDurations


@dataclass(frozen=True, slots=True)
class Timeline:
    """Non-overlapping spans of one rank, arrays (n,), ns.

    ``entered`` is False where a span only goes on with a phase that something interrupted.
    ``step_ns`` (steps,) is when each step closed; ``elsewhere`` are those of threads that trained
    at the same time; ``inferred`` marks forwards that were not heard.
    """

    rank: int
    begin_ns: Times
    end_ns: Times
    code: Times
    entered: npt.NDArray[np.bool_]
    step_ns: Times
    names: dict[int, str]
    inferred: npt.NDArray[np.bool_]
    elsewhere: int = 0
    optimizers: OptimizerSteps = field(default_factory=OptimizerSteps)
    threads: tuple[Timeline, ...] = ()  # that trained beside this one, on the host's clock

    @property
    def steps(self) -> int:
        """Number of steps that closed."""
        return len(self.step_ns) + self.elsewhere

    def name(self, code: int) -> str:
        """Name of the phase with a code."""
        return self.names.get(code, str(Phase.OTHER))

    def table(self) -> SpanTable:
        """The spans as a table, each with the number of steps that closed before it."""
        step = np.searchsorted(np.sort(self.step_ns), self.begin_ns, "right")
        none = np.zeros(len(self.code), np.int64)
        return SpanTable(
            self.begin_ns, self.end_ns, self.code, step, none, self.inferred, self.entered
        )

    def totals(self) -> PhaseTotals:
        """The phase totals of these spans."""
        counting, durations = PhaseCounter(), StepDurations()
        counting.take(self.table())
        durations.add(self.step_ns)
        own = counting.totals(self.rank, self.names, self.steps, durations.times(), self.optimizers)
        return own.and_threads([each.totals() for each in self.threads]) if self.threads else own

    def part(self, begin_ns: int, end_ns: int) -> Timeline:
        """The spans between two instants, cut there."""
        begin = np.clip(self.begin_ns, begin_ns, end_ns)
        end = np.clip(self.end_ns, begin_ns, end_ns)
        keep = end > begin
        steps = (self.step_ns > begin_ns) & (self.step_ns <= end_ns)
        threads = tuple(each.part(begin_ns, end_ns) for each in self.threads)
        outside = sum(len(each.step_ns) for each in self.threads)
        outside -= sum(len(each.step_ns) for each in threads)
        return replace(
            self,
            begin_ns=begin[keep],
            end_ns=end[keep],
            code=self.code[keep],
            entered=(self.entered & (self.begin_ns >= begin_ns))[keep],
            inferred=self.inferred[keep],
            step_ns=self.step_ns[steps],
            elsewhere=self.elsewhere - outside,
            threads=threads,
        )


def steps_elsewhere(rows: Rows) -> int:
    """How many steps threads took that trained at the same time; each record has the sum so far."""
    counted = rows["payload"][rows["kind"] == Record.STEP_ELSEWHERE]
    return max(len(counted), int(counted.max(initial=0)))


def timeline(reader: RunReader, rank: int, *, device: bool = False) -> Timeline | None:
    """The spans of a rank; None if it recorded no edges.

    With ``device`` they lie where the accelerator reached the edges; None if the rank
    recorded no device times.
    """
    attempts = parts(reader, rank, device=device)
    if not attempts:
        return None
    beside = [
        _of_ring(reader, rank, name, rows, ())
        for name, rows in reader.rings(rank)
        if name.startswith(TRAINING_THREAD)
    ]
    threads = tuple(each for each in beside if len(each.begin_ns))
    return replace(_join(attempts), threads=threads) if threads else _join(attempts)


def parts(reader: RunReader, rank: int, *, device: bool = False) -> list[Timeline]:
    """As :func:`timeline`, one for each time that the rank was started."""
    rings = reader.rings(rank)
    mains = [(name, rows) for name, rows in rings if name.startswith("main")]
    others = [rows for name, rows in rings if not name.startswith(("main", TRAINING_THREAD))]
    if device:
        mains = [(name, moved) for name, rows in mains if (moved := on_device(rows)) is not None]
    return _apart([_of_ring(reader, rank, name, rows, others) for name, rows in mains])


def _of_ring(
    reader: RunReader, rank: int, name: str, rows: Rows, others: Sequence[Rows]
) -> Timeline:
    """What one thread did; ``others`` are the rings that are laid over its backwards."""
    spans = decode(rows, others)
    keep = spans.code != Code.OUTSIDE
    names = reader.names(rank, name)
    optimizers = OptimizerCounter()
    optimizers.take(rows)
    return Timeline(
        rank,
        spans.begin_ns[keep].astype(np.int64),
        spans.end_ns[keep].astype(np.int64),
        spans.code[keep].astype(np.int64),
        spans.entered[keep],
        reader.closed_steps(rank, rows),
        names,
        spans.inferred[keep],
        steps_elsewhere(rows),
        optimizers.result(names),
    )


def _apart(parts: list[Timeline]) -> list[Timeline]:
    """Restarts of a rank follow each other; of processes at the same time the busiest counts."""
    kept: list[Timeline] = []
    for part in sorted(parts, key=lambda p: int(p.begin_ns[0]) if len(p.begin_ns) else 0):
        if not len(part.begin_ns):
            continue
        if kept and part.begin_ns[0] < kept[-1].end_ns[-1]:
            kept[-1] = max(kept[-1], part, key=lambda p: (p.steps, len(p.begin_ns)))
        else:
            kept.append(part)
    return kept or parts[:1]


def _join(parts: list[Timeline]) -> Timeline:
    """Several main rings of a rank that was started again, one after the other.

    Codes are given anew by name; the time between rings is the phase ``restart``.
    """
    if len(parts) == 1:
        return parts[0]
    parts = [
        piece
        for part, after in zip(parts, [*parts[1:], None], strict=True)
        for piece in (part, _between(part, after))
        if piece is not None
    ]
    code_of: dict[str, int] = {}
    names: dict[int, str] = {}
    codes: list[Times] = []
    for part in parts:
        mapping = {}
        for code in np.unique(part.code):
            name = part.name(int(code))
            mapping[int(code)] = code_of.setdefault(name, len(code_of) + 1)
            names[code_of[name]] = name
        codes.append(np.array([mapping[int(c)] for c in part.code], np.int64))
    begin = np.concatenate([p.begin_ns for p in parts])
    order = np.argsort(begin, kind="stable")
    return Timeline(
        parts[0].rank,
        begin[order],
        np.concatenate([p.end_ns for p in parts])[order],
        np.concatenate(codes)[order],
        np.concatenate([p.entered for p in parts])[order],
        np.concatenate([p.step_ns for p in parts]),
        names,
        np.concatenate([p.inferred for p in parts])[order],
        sum(p.elsewhere for p in parts),
        OptimizerSteps.joined(p.optimizers for p in parts),
    )


def _between(before: Timeline, after: Timeline | None) -> Timeline | None:
    if after is None or not len(before.end_ns) or after.begin_ns[0] <= before.end_ns[-1]:
        return None
    return Timeline(
        before.rank,
        before.end_ns[-1:],
        after.begin_ns[:1],
        np.array([0]),
        np.array([True]),
        np.zeros(0, np.int64),
        {0: str(Phase.RESTART)},
        np.zeros(1, np.bool_),
    )
