"""Made-up pipelines: what would be waited without transfers is simulated here once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from probe.ring.layout import PEER_BITS, Record, TransferCode
from probe.ring.reader import SLOT_DTYPE
from probe.timeline.pipeline_waiting import SEVERAL_HOSTS, UNPAIRED, pipeline_waiting

Row = tuple[int, int, int, int]
MS = 1_000_000
STEPS, MICROS = 12, 3


@dataclass
class Reader:
    """Ranks with these records."""

    rows: list[list[Row]]
    hosts: tuple[str, ...] = ()

    @property
    def begin_ns(self) -> int:
        return 0

    def end_ns(self) -> int:
        return max(row[0] for rows in self.rows for row in rows)

    @property
    def members(self) -> list[Any]:
        hosts = self.hosts or ("here",) * len(self.rows)
        return [SimpleNamespace(rank=rank, host=host) for rank, host in enumerate(hosts)]

    def ranks(self) -> list[int]:
        return list(range(len(self.rows)))

    def rings_between(self, rank: int, begin_ns: int, end_ns: int) -> list[Any]:
        rows = np.zeros(len(self.rows[rank]), SLOT_DTYPE)
        for place, (time_ns, kind, code, payload) in enumerate(self.rows[rank]):
            rows[place] = (time_ns, payload, place + 1, kind, code, 0)
        return [("main", rows[(rows["time_ns"] >= begin_ns) & (rows["time_ns"] <= end_ns)])]


def gpipe(compute_ns: np.ndarray, moves_ns: int) -> tuple[list[list[Row]], np.ndarray]:
    """Records of a GPipe whose stages compute (steps, ranks, 2 × micros) ns; waits (steps, ranks).

    An arrival is ``moves_ns`` after both sides have begun; a send is over when it has arrived.
    """
    steps, ranks, _ = compute_ns.shape
    programs = [list(_program(rank, ranks, steps)) for rank in range(ranks)]
    now, at = [MS * rank for rank in range(ranks)], [0] * ranks
    begun: dict[tuple[int, int, int, int], int] = {}
    counts: dict[tuple[int, int, int], int] = {}
    rows: list[list[Row]] = [[] for _ in range(ranks)]
    waits_ns = np.zeros((steps, ranks))
    numbers: list[dict[tuple[int, int, int, int], int]] = [{} for _ in range(ranks)]
    while any(at[rank] < len(programs[rank]) for rank in range(ranks)):
        for rank in range(ranks):
            while at[rank] < len(programs[rank]):
                what, step, micro, code, peer = programs[rank][at[rank]]
                if what == "compute":
                    now[rank] += int(compute_ns[step, rank, micro])
                elif what == "close":
                    rows[rank].append((now[rank], Record.STEP, 0, step))
                elif what == "begin":
                    number = counts.get((rank, code, peer), 0)
                    counts[rank, code, peer] = number + 1
                    numbers[rank][step, micro, code, peer] = number
                    begun[rank, code, peer, number] = now[rank]
                    rows[rank].append((now[rank], Record.P2P, code, number << PEER_BITS | peer))
                else:
                    number = numbers[rank][step, micro, code, peer]
                    half = (peer, TransferCode.SEND + TransferCode.RECEIVE - code, rank, number)
                    if half not in begun:
                        break
                    began = now[rank]
                    meets = max(begun[half], begun[rank, code, peer, number])
                    now[rank] = max(began, meets + moves_ns)
                    wait = code + TransferCode.WAIT_SEND - TransferCode.SEND
                    rows[rank].append((began, Record.P2P, wait, number << PEER_BITS | peer))
                    rows[rank].append((now[rank], Record.P2P, TransferCode.WAITED, 0))
                    waits_ns[step, rank] += now[rank] - began
                at[rank] += 1
    return rows, waits_ns


def _program(rank: int, ranks: int, steps: int) -> Any:
    for step in range(steps):
        yield "compute", step, 0, 0, 0  # of the step before: its optimizer
        yield "close", step, 0, 0, 0
        for first, source, target in ((0, rank - 1, rank + 1), (MICROS, rank + 1, rank - 1)):
            for micro in range(first, first + MICROS):
                if 0 <= source < ranks:
                    yield "begin", step, micro, TransferCode.RECEIVE, source
                    yield "wait", step, micro, TransferCode.RECEIVE, source
                yield "compute", step, micro, 0, 0
                if 0 <= target < ranks:
                    yield "begin", step, micro, TransferCode.SEND, target
            if 0 <= target < ranks:
                for micro in range(first, first + MICROS):
                    yield "wait", step, micro, TransferCode.SEND, target
    yield "close", steps, 0, 0, 0
    yield "close", steps + 1, 0, 0, 0


def times(seed: int, ranks: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(2 * MS, 20 * MS, (STEPS, ranks, 2 * MICROS))


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("moves_ms", [0.001, 1.0, 30.0])
def test_the_bubble_is_what_a_run_without_transfers_waits(ranks: int, moves_ms: float) -> None:
    compute_ns = times(ranks, ranks)
    rows, waits_ns = gpipe(compute_ns, round(moves_ms * MS))
    _, bubbles_ns = gpipe(compute_ns, 0)
    waiting = pipeline_waiting(Reader(rows))  # type: ignore[arg-type]
    assert waiting is not None and len(waiting.ranks) == ranks
    for row in waiting.ranks:
        waited_s = waits_ns[:, row.rank].mean() / 1e9
        bubble_s = bubbles_ns[:, row.rank].mean() / 1e9
        assert row.waiting_s == pytest.approx(waited_s, rel=1e-9)
        assert row.bubble_s == pytest.approx(bubble_s, rel=1e-9)
        assert row.transfer_s == pytest.approx(waited_s - bubble_s, abs=1e-9)


def buffered(rows: list[list[Row]]) -> Reader:
    """Sends are over at once, whether or not they were received."""
    ends = [
        [row, *of_rank[place + 1 : place + 2]]
        for of_rank in rows
        for place, row in enumerate(of_rank)
        if row[1] == Record.P2P and row[2] == TransferCode.WAIT_SEND
    ]
    at_once = {id(end): (wait[0], *end[1:]) for wait, end in ends}
    return Reader([[at_once.get(id(row), row) for row in of_rank] for of_rank in rows])


def shifted(rows: list[list[Row]]) -> Reader:
    """The first rank is watched from its second send on."""
    late = [
        (time_ns, kind, code, payload - (1 << PEER_BITS))
        if kind == Record.P2P and code in (TransferCode.SEND, TransferCode.WAIT_SEND)
        else (time_ns, kind, code, payload)
        for time_ns, kind, code, payload in rows[0]
        if not (
            kind == Record.P2P
            and code in (TransferCode.SEND, TransferCode.WAIT_SEND)
            and payload < 1 << PEER_BITS
        )
    ]
    return Reader([late, *rows[1:]])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: Reader(rows, ("a", "b")), SEVERAL_HOSTS),
        (shifted, UNPAIRED),
        (buffered, UNPAIRED),
    ],
)
def test_what_cannot_be_told_apart_says_why(
    change: Callable[[list[list[Row]]], Reader], why: str
) -> None:
    waiting = pipeline_waiting(change(gpipe(times(2, 2), MS)[0]))  # type: ignore[arg-type]
    assert waiting is not None and waiting.method == why and waiting.ranks == ()


@pytest.mark.parametrize("record", range(100, 104))
@pytest.mark.parametrize("rank", [0, 1])
def test_a_part_of_a_run_is_enough(rank: int, record: int) -> None:
    rows, _ = gpipe(np.full((2 * STEPS, 2, 2 * MICROS), 10 * MS), 5 * MS)
    begin_ns = rows[rank][record][0]
    cut = [[row for row in of_rank if row[0] >= begin_ns] for of_rank in rows]
    waiting = pipeline_waiting(Reader(cut))  # type: ignore[arg-type]
    assert waiting is not None
    for row in waiting.ranks:  # (p - 1) of a forward and a backward; 2 (m + p - 2) transfers
        assert row.bubble_s == pytest.approx(0.020, rel=0.1)
        assert row.transfer_s == pytest.approx(2 * MICROS * 0.005, rel=0.1)


def test_few_steps_and_ranks_that_send_nothing_say_nothing() -> None:
    rows, _ = gpipe(times(3, 2), 0)
    silent = [[row for row in of_rank if row[1] == Record.STEP] for of_rank in rows]
    few = [of_rank[: len(of_rank) // 4] for of_rank in rows]
    assert pipeline_waiting(Reader(silent)) is None  # type: ignore[arg-type]
    assert pipeline_waiting(Reader(few)) is None  # type: ignore[arg-type]
