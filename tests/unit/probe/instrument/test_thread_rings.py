"""Threads come and go; their rings stay few."""

from __future__ import annotations

import threading
from pathlib import Path

from probe.instrument.thread_rings import MOST_THREADS, ThreadRings
from probe.ring.layout import Record
from probe.ring.reader import RingReader
from probe.ring.writer import RingWriter
from tests.fakes import processes

CODE = 64


def rings_in(folder: Path) -> ThreadRings:
    return ThreadRings(
        lambda label, capacity: RingWriter(folder / f"{label}.ring", capacity=capacity)
    )


def in_a_thread(work) -> None:  # type: ignore[no-untyped-def]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_threads_that_end_give_their_ring_back(tmp_path: Path) -> None:
    rings = rings_in(tmp_path)

    def phase() -> None:
        ring = rings.here()
        assert ring is not None
        ring.enter(CODE)
        ring.leave(CODE)

    for _ in range(500):
        in_a_thread(phase)
    (path,) = tmp_path.glob("*.ring")
    rows = RingReader(path).read().rows
    assert rings.dropped == 0 and rings.missing() == ""
    assert (rows["kind"] == Record.MARK).sum() == (rows["kind"] == Record.LEAVE).sum() == 500


def test_a_thread_that_dies_amid_a_phase_leaves_it(tmp_path: Path) -> None:
    rings = rings_in(tmp_path)

    def dies() -> None:
        ring = rings.here()
        assert ring is not None
        ring.enter(CODE)
        ring.enter(CODE + 1)

    in_a_thread(dies)
    (path,) = tmp_path.glob("*.ring")
    rows = RingReader(path).read().rows
    kinds, codes = rows["kind"].tolist(), rows["code"].tolist()
    assert (kinds[-1], codes[-1]) == (Record.LEAVE, CODE)
    in_a_thread(dies)
    assert len(list(tmp_path.glob("*.ring"))) == 1


def test_threads_beyond_the_most_are_counted_and_come_in_later(tmp_path: Path) -> None:
    rings = rings_in(tmp_path)
    stay, ready = threading.Event(), threading.Semaphore(0)

    def holds() -> None:
        ring = rings.here()
        assert ring is not None
        ring.enter(CODE)
        ready.release()
        stay.wait(processes.HUNG_S)

    threads = [threading.Thread(target=holds) for _ in range(MOST_THREADS)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert ready.acquire(timeout=processes.HUNG_S)
    assert rings.here() is None and rings.here() is None
    assert rings.missing().startswith("2 edges of threads are missing: only 64")
    stay.set()
    for thread in threads:
        thread.join()
    assert rings.here() is not None
    assert len(list(tmp_path.glob("*.ring"))) == MOST_THREADS
