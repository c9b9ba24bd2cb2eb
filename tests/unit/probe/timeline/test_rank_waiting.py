"""Made-up arrivals: who waits, who is named, and who is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.store.clocks import ClockOffset
from probe.timeline.rank_waiting import balance

MS = 1_000_000


class Reader:
    """Ranks that step every 50 ms and meet after what ``own`` says, in ms."""

    begin_ns = 0

    def __init__(self, own: np.ndarray, *, ddp: bool = True, bound_ns: int | None = 0):
        self._own, self._ddp = own, ddp
        self.clocks = {"other": ClockOffset(0, bound_ns, "")}
        self.widest_ns = 0

    def end_ns(self) -> int:
        return 50 * MS * (len(self._own) + 2)

    def ranks(self) -> list[int]:
        return list(range(self._own.shape[1]))

    def rings_between(self, rank: int, begin_ns: int, end_ns: int) -> list[Any]:
        self.widest_ns = max(self.widest_ns, end_ns - begin_ns)
        records = []
        for step, own in enumerate(self._own[:, rank]):
            at = 50 * MS * (step + 1)
            meets = at + round(own * MS)
            if self._ddp:
                records.append((at, Record.SYNC, 1, 0))
            records.append((at, Record.MARK, Code.FORWARD, -1))
            records.append(
                (meets, Record.MARK, Code.BACKWARD if self._ddp else Code.COMMUNICATION, -1)
            )
            records.append((at + 40 * MS, Record.MARK, Code.OTHER, -1))
            records.append((at + 45 * MS, Record.STEP, 1, step))
        rows = np.zeros(len(records), SLOT_DTYPE)
        for place, (time_ns, kind, code, payload) in enumerate(records):
            rows[place] = (time_ns, payload, place + 1, kind, code, 0)
        inside = (rows["time_ns"] >= begin_ns) & (rows["time_ns"] <= end_ns)
        return [("main", rows[inside])]


@pytest.mark.parametrize("ddp", [True, False])
def test_the_slowest_is_named_and_the_others_wait(ddp: bool) -> None:
    chance = np.random.default_rng(1)
    own = 10 + chance.normal(0, 0.3, (200, 4))
    own[:, 2] += 6
    waiting = balance(Reader(own, ddp=ddp))  # type: ignore[arg-type]
    assert waiting is not None and waiting.slowest == 2
    assert waiting.step_s == pytest.approx(0.05, rel=0.05)
    for row in waiting.ranks:
        waits = (own.max(axis=1) - own[:, row.rank])[1:].mean() / 1e3
        assert row.waiting_s == pytest.approx(waits, rel=0.02, abs=1e-5)
    assert waiting.ranks[2].last_share > 0.99
    assert waiting.skew_s.median == pytest.approx(6.3e-3, rel=0.1)


def test_equal_ranks_are_not_blamed() -> None:
    blamed = 0
    for seed in range(50):
        own = 10 + np.random.default_rng(seed).normal(0, 1.0, (300, 4))
        waiting = balance(Reader(own))  # type: ignore[arg-type]
        assert waiting is not None
        blamed += waiting.slowest is not None
    assert blamed <= 2


def test_a_lag_below_what_clocks_can_tell_is_nobodys() -> None:
    own = 10 + np.random.default_rng(3).normal(0, 0.01, (200, 2))
    own[:, 1] += 0.6
    assert balance(Reader(own)).slowest == 1  # type: ignore[arg-type,index]
    unsure = balance(Reader(own, bound_ns=MS))  # type: ignore[arg-type]
    assert unsure is not None and unsure.slowest is None and unsure.bound_s == 1e-3
    assert balance(Reader(own, bound_ns=None)) is None  # type: ignore[arg-type]


def test_of_a_long_run_the_middle_is_looked_at() -> None:
    own = np.full((5000, 2), 10.0)
    own[:1000, 0] += 8  # only at its begin
    reader = Reader(own)
    waiting = balance(reader)  # type: ignore[arg-type]
    assert waiting is not None and 900 < waiting.steps < 1100
    assert reader.widest_ns <= 3 * 1000 * 50 * MS  # the rest of it stays on disk
    assert waiting.skew_s.p95 == 0.0


@pytest.mark.parametrize("own", [np.full((200, 1), 9.0), np.full((5, 2), 9.0)])
def test_one_rank_and_a_few_steps_say_nothing(own: np.ndarray) -> None:
    assert balance(Reader(own)) is None  # type: ignore[arg-type]
