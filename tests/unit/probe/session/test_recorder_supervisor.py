"""Ranks that find their recorder dead at the same moment start one recorder, not two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probe.recorder.spawn import claim, current_epoch
from probe.session import recorder_supervisor
from probe.session.recorder_supervisor import Supervisor

LONG_AGO_NS = time.monotonic_ns() - 60 * 10**9
NO_SUCH_PID = 2**22 + 1  # above the kernel's largest


class Ring:
    """The words of a ring whose recorder is dead; ``meanwhile`` runs as its beat is read."""

    sealed = False
    reader_epoch, reader_pid, beat_ns = 1, NO_SUCH_PID, LONG_AGO_NS

    def __init__(self, meanwhile: Callable[[], object] = lambda: None):
        self._meanwhile = meanwhile

    @property
    def heartbeat_ns(self) -> int:
        beat_ns = self.beat_ns
        self._meanwhile()
        return beat_ns


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fencing numbers of the recorders that were started."""
    numbers: list[int] = []
    monkeypatch.setattr(recorder_supervisor, "spawn", lambda run, epoch: numbers.append(epoch))
    assert claim(tmp_path, 1)
    return numbers


def supervisor(run: Path, ring: Any) -> Supervisor:
    return Supervisor(run, ring)


def test_the_dead_are_replaced_once(tmp_path: Path, started: list[int]) -> None:
    one = supervisor(tmp_path, Ring())
    for _ in range(3):
        one.check(time.monotonic_ns())
    assert started == [2]


@pytest.mark.parametrize("after", ["its leases", "its beat"])
def test_two_ranks_look_at_the_same_time(
    after: str, tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replaces the recorder while the other has looked and not yet claimed."""
    first = supervisor(tmp_path, Ring())

    def meanwhile() -> None:
        first.check(time.monotonic_ns())

    if after == "its leases":
        armed = [True]  # the second's first listing only

        def listing(run: Path) -> int:
            found = current_epoch(run)
            if armed:
                armed.clear()
                meanwhile()
            return found

        monkeypatch.setattr(recorder_supervisor, "current_epoch", listing)
        second = supervisor(tmp_path, Ring())
    else:
        second = supervisor(tmp_path, Ring(meanwhile))
    second.check(time.monotonic_ns())
    assert started == [2]


def test_a_new_recorder_comes_while_a_rank_looks(tmp_path: Path, started: list[int]) -> None:
    """It was claimed, started, and took over this ring between two reads of its words."""
    ring = Ring()

    def arrive() -> None:
        if claim(tmp_path, 2):
            ring.reader_epoch, ring.reader_pid = 2, os.getpid()
            ring.beat_ns = time.monotonic_ns()

    ring._meanwhile = arrive
    supervisor(tmp_path, ring).check(time.monotonic_ns())
    assert started == []


def test_a_recorder_on_its_way_is_waited_for(tmp_path: Path, started: list[int]) -> None:
    assert claim(tmp_path, 2)
    supervisor(tmp_path, Ring()).check(time.monotonic_ns())
    assert started == []
