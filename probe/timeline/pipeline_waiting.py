"""Bubble and transfer of a pipeline: what a rank's waits for its neighbours consist of.

The bubble is what ranks would still wait if data moved in no time. To find it, the recorded sends,
receives, waits and the times between them are played again, of all ranks together: a wait ends when
the neighbour has begun its half of the transfer, the k-th send from r to s with the k-th receive at
s from r. What a rank really waited beyond that is due to transfers. The wait before the neighbour's
half alone would not do: where every transfer is late, so is what the neighbour computes from it.

Times between waits are kept as they were, so what schedule makes them does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..attribution.arrays import Ints
from ..report.model import PipelineRow, PipelineWaiting
from ..ring.layout import PEER_BITS, Record, TransferCode
from ..store.reader import RunReader
from ..units import NS_PER_S
from .rank_waiting import MainRings, main_rings

_FEWEST = 5  # steps
_MOST_UNPAIRED = 0.01  # of the waits
METHOD = "all ranks' waits, replayed: the bubble is what stays if transfers take no time"
SEVERAL_HOSTS = "not separated: the ranks of several hosts have no common clock"
UNPAIRED = "not separated: some waits ended before the neighbour's half began (was watch() late?)"

_Rows = npt.NDArray[np.void]
_Half = tuple[int, int, int, int]  # code, sender, receiver, number


@dataclass(slots=True)
class Replay:
    """The same run with transfers that take no time; times in ns.

    ``waited_ns`` and ``bubble_ns`` are by rank, of the waits that end in (begin, end] of its
    ``counted``. ``unpaired`` counts the waits that ended before the neighbour's half began.
    """

    counted: Mapping[int, tuple[int, int]]
    waited_ns: Counter[int] = field(default_factory=Counter)
    bubble_ns: Counter[int] = field(default_factory=Counter)
    paired: int = 0
    unpaired: int = 0
    _real: dict[int, int] = field(default_factory=dict)  # of each rank's last record
    _now: dict[int, int] = field(default_factory=dict)  # the same in the replay
    _begun: dict[_Half, int] = field(default_factory=dict)  # when, in the replay
    _first: dict[tuple[int, int, int], int] = field(default_factory=dict)  # numbers of halves
    _waits: dict[int, _Half] = field(default_factory=dict)  # for the other's half

    def play(self, rank: int, time_ns: int, code: int, peer: int, number: int) -> None:
        """Take the next P2P record of all ranks, in the order of their times."""
        took = time_ns - self._real.get(rank, time_ns)
        self._real[rank] = time_ns
        now = self._now.get(rank, time_ns)
        self._now[rank] = now + took
        if code == TransferCode.WAITED:
            if (other := self._waits.pop(rank, None)) is not None:
                self._now[rank] = self._end(rank, time_ns, now, took, other)
            return
        if code in (TransferCode.SEND, TransferCode.RECEIVE):
            pair = (rank, peer) if code == TransferCode.SEND else (peer, rank)
            self._begun[code, *pair, number] = now + took
            self._first.setdefault((code, *pair), number)
        elif code == TransferCode.WAIT_SEND:
            self._waits[rank] = (TransferCode.RECEIVE, rank, peer, number)
        else:
            self._waits[rank] = (TransferCode.SEND, peer, rank, number)

    def _end(self, rank: int, time_ns: int, now: int, took: int, other: _Half) -> int:
        """When a wait that began ``now`` ends in the replay."""
        begun = self._begun.get(other)
        if begun is None:
            # The neighbour's half may lie before the part that was read.
            self.unpaired += other[3] >= self._first.get(other[:3], 0)
            return now + took
        self.paired += 1
        end = max(now, begun)
        after, until = self.counted[rank]
        if after < time_ns <= until:
            self.waited_ns[rank] += took
            self.bubble_ns[rank] += end - now
        return end


def pipeline_waiting(reader: RunReader, rings: MainRings | None = None) -> PipelineWaiting | None:
    """``pipeline`` of the report: seconds per step, of steps around the middle of the run.

    ``rings`` are the :func:`main_rings` of the run, where they are read already.
    None if ranks send each other nothing that was seen, or took too few steps.
    """
    rows_of = {
        rank: rows
        for rank, rows in (main_rings(reader) if rings is None else rings).items()
        if (rows["kind"] == Record.P2P).any()
    }
    steps_of = {rank: _steps(rows) for rank, rows in rows_of.items()}
    if len(rows_of) < 2 or min(map(len, steps_of.values())) <= _FEWEST:
        return None
    if len({member.host for member in reader.members if member.rank in rows_of}) > 1:
        return PipelineWaiting(method=SEVERAL_HOSTS)
    counted = {rank: (int(ends[0]), int(ends[-1])) for rank, ends in steps_of.items()}
    replay = Replay(counted)
    for event in _in_order(rows_of).T.tolist():
        replay.play(*event)
    if replay.unpaired > _MOST_UNPAIRED * replay.paired:
        return PipelineWaiting(method=UNPAIRED)
    return PipelineWaiting(
        method=METHOD,
        ranks=tuple(
            PipelineRow(
                rank=rank,
                step_s=(until - after) / NS_PER_S / (steps := len(steps_of[rank]) - 1),
                waiting_s=(waited := replay.waited_ns[rank]) / NS_PER_S / steps,
                bubble_s=(bubble := replay.bubble_ns[rank]) / NS_PER_S / steps,
                transfer_s=(waited - bubble) / NS_PER_S / steps,
            )
            for rank, (after, until) in counted.items()
        ),
    )


def _steps(rows: _Rows) -> Ints:
    """When steps closed: with what followed them, so not the last one, which nothing may follow."""
    ends: Ints = rows["time_ns"][rows["kind"] == Record.STEP].astype(np.int64)
    return ends[:-1]


def _in_order(rows_of: Mapping[int, _Rows]) -> Ints:
    """Rank, time, code, peer and number of all P2P records, (5, records), by time."""
    parts = []
    for rank, rows in rows_of.items():
        own = rows[rows["kind"] == Record.P2P]
        payload = own["payload"].astype(np.int64)
        parts.append(
            np.stack(
                [
                    np.full(len(own), rank),
                    own["time_ns"].astype(np.int64),
                    own["code"].astype(np.int64),
                    payload & ((1 << PEER_BITS) - 1),
                    payload >> PEER_BITS,
                ]
            )
        )
    events = np.concatenate(parts, axis=1)
    return events[:, np.argsort(events[1], kind="stable")]
