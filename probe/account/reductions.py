"""What reducing gradients costs a rank: three numbers that are never merged.

Of DistributedDataParallel, which reduces inside backward, in its C++ reducer:

*busy*: how long collectives ran, whatever else went on; *exposed*: how long backward waited for the
last of them, nothing being computed; both as DDP's own timers say on the steps that it samples.
*cost*: how much longer a backward takes that reduces than one of the same step under ``no_sync``,
which is what is exposed and what the others' cores and links are slowed down by (contention). With
gradient accumulation that is a free experiment in every step; without it only the exposed tail is
known, and it is a lower bound. Of two micro-batches the second also adds to gradients that the
first made: what the rank timed of that on memory of its own is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ring.layout import REDUCTIONS_WARM_UP, Code, CommCode, Record
from ..spans import Rows, SpanTable

_FEWEST = 5  # steps, for a mean with an interval
_SUMS = ("busy", "exposed", "cost", "adding")
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Sums:
    """Of some values: mean and 95 % interval of the mean come of it."""

    number: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Some more."""
        self.number += len(values)
        self.total += float(values.sum())
        self.squares += float((values**2).sum())

    def mean(self) -> float | None:
        """None of too few."""
        return self.total / self.number if self.number >= _FEWEST else None

    def half(self) -> float | None:
        """Of the interval."""
        mean = self.mean()
        if mean is None:
            return None
        spread = max(0.0, self.squares / self.number - mean**2)
        return 1.96 * math.sqrt(spread / (self.number - 1))


class Reductions:
    """Of one rank; fed with batches of its main ring as they come."""

    def __init__(self) -> None:
        self.busy, self.exposed, self.cost, self.adding = Sums(), Sums(), Sums(), Sums()
        self._warming = REDUCTIONS_WARM_UP
        self._of_two = 0  # steps in which only the first backward could be held beside
        self._syncs = np.zeros((0, 2), np.int64)  # time, whether its backward reduces
        self._held = np.zeros((0, 4), np.int64)  # step, micro, begin, length of a backward

    def feed(self, rows: Rows, table: SpanTable | None) -> None:
        """Edges, and the spans that they decided."""
        told = rows[rows["kind"] == Record.SYNC]
        if len(told):
            self._syncs = np.concatenate([self._syncs, np.stack(
                [told["time_ns"].astype(np.int64), told["code"].astype(np.int64)], axis=1)])
        timed = rows[rows["kind"] == Record.COMM]
        for sums, code in ((self.busy, CommCode.BUSY), (self.exposed, CommCode.EXPOSED),
                           (self.adding, CommCode.ADDING)):
            sums.add(timed["payload"][timed["code"] == code].astype(np.float64) / 1e9)
        if table is not None and len(self._syncs):
            self._take(table)

    def _take(self, table: SpanTable) -> None:
        mine = table.code == Code.BACKWARD
        self._held = np.concatenate([self._held, np.stack([
            one[mine].astype(np.int64) for one in
            (table.step, table.micro, table.begin_ns, table.end_ns - table.begin_ns)], axis=1)])
        if not len(self._held):
            return
        closed = self._held[:, 0] < self._held[:, 0].max()
        whole, self._held = self._held[closed], self._held[~closed]
        if len(whole):
            self._pair(whole)
            known = np.searchsorted(self._syncs[:, 0], whole[-1, 2], "right") - 1
            self._syncs = self._syncs[max(0, known):]

    def _pair(self, whole: Ints) -> None:
        """Within each step: the backward that reduces less the mean of those that do not."""
        key, place = np.unique((whole[:, 0] << 16) | whole[:, 1], return_inverse=True)
        length = np.bincount(place, whole[:, 3])
        begin = np.full(len(key), np.iinfo(np.int64).max)
        np.minimum.at(begin, place, whole[:, 2])
        at = np.searchsorted(self._syncs[:, 0], begin, "right") - 1
        reduces = (at >= 0) & (self._syncs[np.maximum(at, 0), 1] == 1)
        _, step, count = np.unique(key >> 16, return_inverse=True, return_counts=True)
        micro = key & 0xFFFF
        first = micro == np.minimum.reduceat(micro, np.cumsum(count) - count)[step]
        # The first one makes the gradients that the others add to: no measure, if there is another.
        beside = ~reduces & (~first | (np.bincount(step, ~reduces)[step] < 2))
        synced, alone = np.bincount(step, reduces), np.bincount(step, beside)
        good = (synced == 1) & (alone > 0)
        cost = np.bincount(step, length * reduces)[good] - (
            np.bincount(step, length * beside)[good] / alone[good])
        warm = min(self._warming, len(cost))
        self._warming -= warm
        self.cost.add(cost[warm:] / 1e9)
        self._of_two += int((np.bincount(step, beside & first)[good][warm:] > 0).sum())

    def state(self) -> dict[str, Any]:
        """To be stored."""
        sums = {name: asdict(getattr(self, name)) for name in _SUMS}
        return sums | {"of_two": self._of_two}


def row(
    rank: int, host: str, told: Mapping[str, Any], blocking_s: float | None
) -> dict[str, Any] | None:
    """One row of ``communication``: seconds per step that reduces; None if nothing is known.

    Args:
        told: as :meth:`Reductions.state`.
        blocking_s: per step, in collectives that the training waited for.
    """
    busy, exposed, cost, adding = (Sums(**told.get(name, {})) for name in _SUMS)
    tail, whole, half = exposed.mean(), cost.mean(), cost.half()
    if busy.mean() is None and whole is None and not blocking_s:
        return None
    methods = []
    if busy.mean() is not None:
        methods.append("DDP's timers")
    if whole is not None:
        methods.append("backward against no_sync in the same step")
        if told.get("of_two"):
            added = adding.mean()
            if added is None or half is None:
                methods[-1] += " (at most: of two micro-batches the second adds to gradients)"
            else:
                # Of steps of which only some have but two micro-batches, by their share.
                share = told["of_two"] / cost.number
                whole -= share * added
                half = math.hypot(half, share * (adding.half() or 0.0))
                methods[-1] += ", less adding to gradients, timed apart"
    if blocking_s:
        methods.append("patched collectives")
    return {
        "rank": rank, "host": host, "blocking_s": blocking_s or None, "busy_s": busy.mean(),
        "exposed_s": tail, "cost_s": whole,
        "cost_s_interval": None if whole is None or half is None else [whole - half, whole + half],
        "contention_s": None if whole is None or tail is None else max(0.0, whole - tail),
        "steps": cost.number or busy.number, "method": "; ".join(methods),
    }
