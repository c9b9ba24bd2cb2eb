"""What reducing gradients costs a rank: three numbers that are never merged.

Of DistributedDataParallel, which reduces inside backward, in its C++ reducer:

*busy*: how long collectives ran, whatever else went on, as DDP's own timers say on the steps that
it samples. *exposed*: how long backward waited for the last of them once all gradients were
computed; it is the phase ``communication`` there. *cost*: how much longer a backward takes that
reduces than one of the same step under ``no_sync``, which is what is exposed and what the others'
cores and links are slowed down by (contention). With gradient accumulation that is a free
experiment in every step; without it only the exposed tail is known, and it is a lower bound. Of two
micro-batches the second also adds to gradients that the first made: what the rank timed of that on
memory of its own is taken off.

All but the timers lie on the rank's device clock where there is one: a host that only launches
kernels does not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from ..attribution.arrays import Bools
from ..report.model import CommunicationRow
from ..ring.layout import REDUCTIONS_WARM_UP, Code, CommCode, Record
from .span_table import Rows, SpanTable

_FEWEST = 5  # steps, for a mean with an interval
ALL_BLOCK = "collectives that block; none overlaps computing"
_NOTHING = 1e-6  # of communication: sums of floats differ by so much
_MOST_HELD = 1 << 16  # spans of a step that does not close; then it is not looked at


class MeanFields(TypedDict):
    """A :class:`RunningMean` as it is stored."""

    number: int
    total: float
    squares: float


class ReductionSums(TypedDict, total=False):
    """What reducing gradients cost a rank, as it is stored: seconds, summed over steps.

    ``of_two`` counts steps of two micro-batches; ``tails_s`` is what backward waited at its end.
    """

    busy: MeanFields
    timed: MeanFields
    exposed: MeanFields
    cost: MeanFields
    adding: MeanFields
    of_two: int
    tails_s: float


@dataclass(slots=True)
class RunningMean:
    """Sums of some values, from which come their mean and the 95 % interval of that mean."""

    number: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Add more values, (n,)."""
        self.number += len(values)
        self.total += float(values.sum())
        self.squares += float((values**2).sum())

    def mean(self) -> float | None:
        """Mean of the values; None if they are too few."""
        return self.total / self.number if self.number >= _FEWEST else None

    def half(self) -> float | None:
        """Half-width of the mean's 95 % interval; None if there are too few values."""
        mean = self.mean()
        if mean is None:
            return None
        spread = max(0.0, self.squares / self.number - mean**2)
        return 1.96 * math.sqrt(spread / (self.number - 1))

    def stored(self) -> MeanFields:
        """The sums as JSON."""
        return {"number": self.number, "total": self.total, "squares": self.squares}


class DdpReductions:
    """What reducing gradients cost one rank; fed with batches of its main ring as they come."""

    def __init__(self) -> None:
        self.busy, self.exposed, self.cost, self.adding = (
            RunningMean(),
            RunningMean(),
            RunningMean(),
            RunningMean(),
        )
        self.timed = RunningMean()  # exposed, as DDP's timers say
        self._tails_ns = 0  # all that backwards waited at their ends
        self._warming = {"exposed": REDUCTIONS_WARM_UP, "cost": REDUCTIONS_WARM_UP}
        self._of_two = 0  # steps in which only the first backward could be held beside
        self._syncs = np.zeros((0, 2), np.int64)  # time, whether its backward reduces
        self._held = SpanTable.empty()  # of the step that has not closed

    def feed(self, rows: Rows, table: SpanTable | None) -> None:
        """Take edges, and the spans that they decided."""
        syncs = rows[rows["kind"] == Record.SYNC]
        if len(syncs):
            self._syncs = np.concatenate(
                [
                    self._syncs,
                    np.stack(
                        [syncs["time_ns"].astype(np.int64), syncs["code"].astype(np.int64)], axis=1
                    ),
                ]
            )
        timed = rows[rows["kind"] == Record.COMM]
        for sums, code in (
            (self.busy, CommCode.BUSY),
            (self.timed, CommCode.EXPOSED),
            (self.adding, CommCode.ADDING),
        ):
            sums.add(timed["payload"][timed["code"] == code].astype(np.float64) / 1e9)
        if table is not None and len(self._syncs):
            self._take(table)

    def _take(self, table: SpanTable) -> None:
        held = SpanTable.concat([self._held, table])
        if not len(held):
            return
        closed = held.step < held.step[-1]
        steps, self._held = held.take(closed), held.take(~closed)
        if len(self._held) > _MOST_HELD:
            self._tails_ns += _waited_ns(self._held, _backwards(self._held)[1])
            self._held = SpanTable.empty()
        inside, tail = _backwards(steps)
        self._tails_ns += _waited_ns(steps, tail)
        if inside.any():
            self._pair(steps.take(inside), tail[inside])
        needed_ns = self._held.begin_ns[0] if len(self._held) else held.end_ns[-1]
        before = np.searchsorted(self._syncs[:, 0], needed_ns, "right") - 1
        self._syncs = self._syncs[max(0, before) :]

    def _pair(self, spans: SpanTable, tail: Bools) -> None:
        """Within each step: the backward that reduces less the mean of those that do not."""
        key, place = np.unique((spans.step << 16) | spans.micro, return_inverse=True)
        took = spans.end_ns - spans.begin_ns
        length, exposed = np.bincount(place, took), np.bincount(place, took * tail)
        begin = np.full(len(key), np.iinfo(np.int64).max)
        np.minimum.at(begin, place, spans.begin_ns)
        at = np.searchsorted(self._syncs[:, 0], begin, "right") - 1
        reduces = (at >= 0) & (self._syncs[np.maximum(at, 0), 1] == 1)
        _, step, count = np.unique(key >> 16, return_inverse=True, return_counts=True)
        waited = np.bincount(step, exposed * reduces) / 1e9
        self.exposed.add(self._warm("exposed", waited[waited > 0]))
        micro = key & 0xFFFF
        first = micro == np.minimum.reduceat(micro, np.cumsum(count) - count)[step]
        # The first one makes the gradients that the others add to: no measure, if there is another.
        beside = ~reduces & (~first | (np.bincount(step, ~reduces)[step] < 2))
        synced, alone = np.bincount(step, reduces), np.bincount(step, beside)
        good = (synced == 1) & (alone > 0)
        cost = np.bincount(step, length * reduces)[good] - (
            np.bincount(step, length * beside)[good] / alone[good]
        )
        cost = self._warm("cost", cost / 1e9)
        self.cost.add(cost)
        of_two = np.bincount(step, beside & first)[good] > 0
        self._of_two += int(of_two[len(of_two) - len(cost) :].sum())

    def _warm(self, name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The values without the first few of the run."""
        left_out = min(self._warming[name], len(values))
        self._warming[name] -= left_out
        return values[left_out:]

    def state(self) -> ReductionSums:
        """The sums as JSON, to be stored."""
        tails_ns = self._tails_ns + _waited_ns(self._held, _backwards(self._held)[1])
        return {
            "busy": self.busy.stored(),
            "timed": self.timed.stored(),
            "exposed": self.exposed.stored(),
            "cost": self.cost.stored(),
            "adding": self.adding.stored(),
            "of_two": self._of_two,
            "tails_s": tails_ns / 1e9,
        }


def _waited_ns(table: SpanTable, tail: Bools) -> int:
    return int((table.end_ns - table.begin_ns)[tail].sum())


def _backwards(table: SpanTable) -> tuple[Bools, Bools]:
    """(spans that a backward consists of, those of them in which it waits at its end).

    It goes on while there are kinds of modules, recomputing or collectives in it.
    """
    code = table.code
    goes_on = np.isin(code, (Code.BACKWARD, Code.RECOMPUTE, Code.COMMUNICATION))
    goes_on |= code >= Code.USER
    begun = np.cumsum(code == Code.BACKWARD)
    run = np.cumsum(~goes_on)  # spans without a break have the same number
    before = np.concatenate([[0], begun[~goes_on]])[run]
    inside = goes_on & (begun > before)
    last = np.concatenate([~goes_on[1:], [True]])
    return inside, inside & last & (code == Code.COMMUNICATION)


def row(
    rank: int,
    host: str,
    sums: ReductionSums,
    communication_s: float,
    steps: int,
    *,
    all_block: bool = False,
) -> CommunicationRow | None:
    """One row of ``communication``: seconds per step that reduces; None if nothing is known.

    Args:
        sums: as :meth:`DdpReductions.state`.
        communication_s: in the phase of that name, over all steps. What backward did not wait at
            its end is of collectives that block.
        steps: that closed.
        all_block: every collective that Python called was waited for in the same call.
    """
    busy, timed, exposed, cost, adding = (
        RunningMean(**stored) if stored is not None else RunningMean()
        for stored in (
            sums.get("busy"),
            sums.get("timed"),
            sums.get("exposed"),
            sums.get("cost"),
            sums.get("adding"),
        )
    )
    blocking = max(0.0, communication_s - sums.get("tails_s", 0.0))
    blocking_s = blocking / steps if steps and blocking > _NOTHING * communication_s else None
    tail, cost_s, half = exposed.mean(), cost.mean(), cost.half()
    if busy.mean() is None and tail is None and cost_s is None and not blocking_s:
        return None
    methods = []
    if busy.mean() is not None:
        methods.append("DDP's timers")
    if tail is not None:
        methods.append("backward after the last gradient")
    else:  # the end of computing gradients was not recorded
        tail = timed.mean()
    if cost_s is not None:
        methods.append("backward against no_sync in the same step")
        if sums.get("of_two"):
            added = adding.mean()
            if added is None or half is None:
                methods[-1] += " (at most: of two micro-batches the second adds to gradients)"
            else:
                # Of steps of which only some have but two micro-batches, by their share.
                share = sums["of_two"] / cost.number
                cost_s -= share * added
                half = math.hypot(half, share * (adding.half() or 0.0))
                methods[-1] += ", less adding to gradients, timed apart"
    if blocking_s:
        alone = all_block and not methods
        methods.append(ALL_BLOCK if alone else "collectives that are waited for")
    return CommunicationRow(
        rank=rank,
        host=host,
        blocking_s=blocking_s,
        busy_s=busy.mean(),
        exposed_s=tail,
        cost_s=cost_s,
        cost_s_interval=None if cost_s is None or half is None else (cost_s - half, cost_s + half),
        contention_s=None if cost_s is None or tail is None else max(0.0, cost_s - tail),
        steps=cost.number or exposed.number or busy.number,
        method="; ".join(methods),
    )
