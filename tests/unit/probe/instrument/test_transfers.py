"""What is recorded of sends and receives, and what is not."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from probe.instrument.transfers import Transfers
from probe.ring.layout import PEER_BITS, Record, TransferCode

SEND, RECEIVE = TransferCode.SEND, TransferCode.RECEIVE


class Work:
    pass


class Ring:
    def __init__(self) -> None:
        self.records: list[tuple[int, int, int]] = []

    def write(self, kind: int, code: int, payload: int) -> None:
        assert kind == Record.P2P
        self.records.append((code, payload >> PEER_BITS, payload & ((1 << PEER_BITS) - 1)))


def transfers(thread: int | None = None) -> tuple[Any, Ring]:
    ring = Ring()
    machine = SimpleNamespace(thread=threading.get_ident() if thread is None else thread)
    return Transfers(ring, machine), ring  # type: ignore[arg-type]


def begun(seen: Transfers, code: TransferCode, peer: int) -> Work:
    work, payload = Work(), seen.begin(code, peer)
    assert payload is not None
    seen.begun(work, code, payload)
    return work


def test_each_direction_to_each_peer_counts_for_itself() -> None:
    seen, ring = transfers()
    for code, peer in ((SEND, 1), (SEND, 1), (RECEIVE, 1), (SEND, 65535), (RECEIVE, 1)):
        seen.begin(code, peer)
    assert ring.records == [
        (SEND, 0, 1),
        (SEND, 1, 1),
        (RECEIVE, 0, 1),
        (SEND, 0, 65535),
        (RECEIVE, 1, 1),
    ]


def test_a_wait_is_of_what_was_begun_and_once() -> None:
    seen, ring = transfers()
    first, second = begun(seen, SEND, 3), begun(seen, RECEIVE, 3)
    assert seen.wait(second) and not seen.wait(second) and not seen.wait(Work())
    seen.waited()
    assert seen.wait(first)
    assert ring.records[2:] == [
        (TransferCode.WAIT_RECEIVE, 0, 3),
        (TransferCode.WAITED, 0, 0),
        (TransferCode.WAIT_SEND, 0, 3),
    ]


def test_other_threads_and_ranks_without_a_number_are_left_out() -> None:
    seen, ring = transfers(thread=0)
    assert seen.begin(SEND, 1) is None
    seen, _ = transfers()
    assert seen.begin(SEND, 1 << PEER_BITS) is None and seen.begin(RECEIVE, -1) is None
    assert ring.records == []


def test_what_nobody_waits_for_does_not_pile_up() -> None:
    seen, _ = transfers()
    for _ in range(10_000):
        begun(seen, SEND, 1)
    assert len(seen._begun) <= 4096
    other = [Work() for _ in range(1000)]  # some at addresses of those that are gone
    assert not any(seen.wait(work) for work in other)
