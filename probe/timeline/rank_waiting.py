"""Which rank waits for which: when the ranks of a job reach the points where they meet, by step.

A rank arrives when it begins the backward that reduces gradients (DDP), or the step's first
blocking collective. No rank goes on before the last one has come; the time between is waiting.
(What one rank's backward itself takes longer than another's is not seen in this way.)

Times of several hosts are those of the job's clock, so less than its bound says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..attribution.arrays import Ints
from ..report.model import RankBalance, SkewRow, WaitingRow
from ..ring.layout import Code, Record
from ..store.reader import RunReader
from ..units import NS_PER_S
from .span_table import SpanTable
from .spans import decode

MOST_STEPS = 1000  # that are looked at: of a longer run, those around its middle
_FEWEST = 20
_FIRST_LOOK_NS = 2_000_000_000
_SURE = 0.01  # chance that an equal rank would have come last as often
_WORTH = 0.005  # of a step: a rank that is late by less is not called slow

MainRings = Mapping[int, npt.NDArray[np.void]]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``time_ns[step, rank]`` of the steps that all ranks have, in the job's time."""

    ranks: Sequence[int]
    steps: Ints
    time_ns: Ints

    @property
    def waiting_s(self) -> npt.NDArray[np.float64]:
        """Seconds from each rank's arrival until the last rank has come, (steps, ranks)."""
        latest = self.time_ns.max(axis=1, keepdims=True)
        return np.asarray((latest - self.time_ns) / NS_PER_S, np.float64)


def balance(reader: RunReader, rings: MainRings | None = None) -> RankBalance | None:
    """``balance`` of the report: how long each rank waits, and which one is the slowest.

    ``rings`` are the :func:`main_rings` of the run, where they are read already.

    None for one rank, ranks that never meet all at once (a pipeline), or hosts whose clocks were
    not compared.
    """
    bounds = [clock.bound_ns for clock in reader.clocks.values()]
    known_bounds = sorted((bound for bound in bounds if bound is not None), reverse=True)
    compared = len(known_bounds) == len(bounds)
    met = arrivals(main_rings(reader) if rings is None else rings) if compared else None
    bound_s = sum(known_bounds[:2]) / NS_PER_S  # of the two hosts that are worst known
    if met is None or len(met.steps) < _FEWEST:
        return None
    waiting = met.waiting_s
    last = np.bincount(waiting.argmin(axis=1), minlength=len(met.ranks))
    step_s = float(np.median(np.diff(met.time_ns.max(axis=1)))) / NS_PER_S
    skew = waiting.max(axis=1)
    return RankBalance(
        steps=len(met.steps),
        step_s=step_s,
        skew_s=SkewRow(median=float(np.median(skew)), p95=float(np.quantile(skew, 0.95))),
        bound_s=bound_s,
        ranks=tuple(
            WaitingRow(
                rank=rank,
                waiting_s=float(waiting[:, place].mean()),
                last_share=float(last[place] / len(met.steps)),
            )
            for place, rank in enumerate(met.ranks)
        ),
        slowest=_slowest(met, waiting, last, max(bound_s, _WORTH * step_s)),
        method="when ranks begin the backward that reduces, or a blocking collective",
    )


def _slowest(
    met: Arrivals, waiting: npt.NDArray[np.float64], last: Ints, least_s: float
) -> int | None:
    """The one that came last too often for chance, and late enough to matter."""
    place = int(last.argmax())
    number, ranks = len(met.steps), len(met.ranks)
    expected, spread = number / ranks, math.sqrt(number * (ranks - 1)) / ranks
    z = (last[place] - expected) / spread
    by_chance = ranks * 0.5 * math.erfc(z / math.sqrt(2))
    others = np.delete(waiting, place, axis=1)[waiting.argmin(axis=1) == place]
    late_s = float(np.median(others.min(axis=1))) if len(others) else 0.0
    return met.ranks[place] if by_chance < _SURE and late_s > least_s else None


def arrivals(rings: MainRings) -> Arrivals | None:
    """Of the steps in these records; None if fewer than two ranks meet."""
    by_rank = {rank: _of_rank(rows) for rank, rows in rings.items()}
    common = (
        sorted(set.intersection(*(set(steps) for steps in by_rank.values()))) if by_rank else []
    )
    if len(by_rank) < 2 or not common:
        return None
    order = sorted(by_rank)
    times = np.array([[by_rank[rank][step] for rank in order] for step in common], np.int64)
    return Arrivals(order, np.array(common, np.int64), times)


def main_rings(reader: RunReader) -> MainRings:
    """By rank, the records of its main thread, of :data:`MOST_STEPS` around the run's middle.

    Empty for one rank, which has no other to wait for.
    """
    ranks = reader.ranks()
    if len(ranks) < 2:
        return {}
    part = _middle(reader, ranks[0])
    rings = {}
    for rank in ranks:
        mains = [
            rows
            for name, rows in reader.rings_between(rank, *part)
            if name.startswith("main") and len(rows)
        ]
        if mains:  # of a rank that was started again, how it was last
            rings[rank] = max(mains, key=lambda rows: int(rows["time_ns"][0]))
    return rings


def _middle(reader: RunReader, rank: int) -> tuple[int, int]:
    """Around the run's middle, as long as a rank takes for enough steps."""
    begin_ns, end_ns = reader.begin_ns, reader.end_ns()
    middle, half = (begin_ns + end_ns) // 2, _FIRST_LOOK_NS
    while middle - half > begin_ns:
        steps = sum(
            int((rows["kind"] == Record.STEP).sum())
            for _, rows in reader.rings_between(rank, middle - half, middle + half)
        )
        if steps >= MOST_STEPS:
            half = half * MOST_STEPS // steps
            return middle - half, middle + half
        # A tenth more than it seems to take: each look reads from the disk.
        half *= max(2, min(16, -(-11 * MOST_STEPS // (10 * max(1, steps)))))
    return begin_ns, end_ns


def _of_rank(rows: npt.NDArray[np.void]) -> dict[int, int]:
    """Step → when it arrived; the first and the last one are cut."""
    begin = _begins(decode(rows), rows)
    closed = rows["payload"][rows["kind"] == Record.STEP].astype(np.int64)
    if not len(closed):
        return {}
    return {step: at for step, at in begin.items() if closed[0] < step <= closed[-1]}


def _begins(table: SpanTable, rows: npt.NDArray[np.void]) -> dict[int, int]:
    syncs = rows[rows["kind"] == Record.SYNC]
    if len(syncs):
        times, reduces = syncs["time_ns"].astype(np.int64), syncs["code"] == 1
        meeting = (table.code == Code.BACKWARD) & table.entered
        at = np.searchsorted(times, table.begin_ns, "right") - 1
        meeting &= (at >= 0) & reduces[np.maximum(at, 0)]
    elif (rows["kind"] == Record.P2P).any():
        return {}  # a stage waits for its neighbours, not for all ranks
    else:
        meeting = (table.code == Code.COMMUNICATION) & table.entered
    step, begin = table.step[meeting], table.begin_ns[meeting]
    first = np.unique(step, return_index=True)
    return {int(s): int(begin[i]) for s, i in zip(*first, strict=True)}
