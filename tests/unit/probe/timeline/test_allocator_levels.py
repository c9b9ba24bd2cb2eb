"""GPU memory by phase from a stand-in of torch's allocator whose sequence is known exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe.instrument.cuda_memory import CudaMemory
from probe.ring.layout import CODE_OF_PHASE, Record
from probe.ring.writer import RingWriter
from probe.timeline.allocator_levels import AllocatorByPhase
from probe.timeline.spans import decode
from tests.fakes.allocator import MIB, Allocator
from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")


def levels_of(run: Any) -> dict[tuple[str, str], Any]:
    allocator = AllocatorByPhase()
    for rows in np.array_split(run.rows, 5):  # as a recorder drains them
        allocator.feed(rows, run.names)
    table = decode(run.rows, [])
    for part in np.array_split(np.arange(len(table)), 4):
        allocator.advance(table.take(part))
    codes = {code: name for name, code in CODE_OF_PHASE.items()} | run.names
    return {
        (levels.quantity, codes[code]): level
        for levels in allocator.levels(0)
        for code, level in levels.phases.items()
    }


def test_known_sequences_are_exact(tmp_path: Path) -> None:
    allocator, steps = Allocator(), 12
    with watched(tmp_path) as run:
        engine = run.engine
        engine._memory = CudaMemory(allocator.statistics, engine.ring)
        engine._memory._pause_ns = 0  # every edge is read
        engine._machine.enrich(engine._memory.allocated, None)
        allocator.to(100)
        for _ in range(steps):
            with engine.phase("load"):
                allocator.to(110)
            with engine.phase("up"):  # to 500 MiB, through 620
                allocator.to(500, through=620)
            with engine.phase("down"):  # back, through 900
                allocator.to(110, through=900)
            with engine.phase("free"):
                allocator.to(100, through=130)  # below what was seen before: not seen exactly
    levels = levels_of(run)
    allocated = {phase: level for (name, phase), level in levels.items() if name == "allocated"}
    for phase, mean, peak, added in (
        ("load", 105, None, 10),
        ("up", 305, 620, 390),
        ("down", 305, 900, -390),
        ("free", 105, None, -10),
    ):
        assert allocated[phase].mean == mean * MIB, phase
        assert allocated[phase].added == added * MIB, phase
        if peak is not None:
            assert allocated[phase].highest == peak * MIB
    # The peaks of these two did not raise the running peak: they lie between edge and peak.
    assert allocated["load"].highest == allocated["free"].highest == 110 * MIB
    assert allocated["load"].at_most == allocated["free"].at_most == 900 * MIB
    assert allocated["down"].at_most is None
    assert levels["reserved", "down"].highest == 900 * MIB
    assert levels["reserved", "free"].mean == 900 * MIB


def test_a_pause_attributes_no_peak(tmp_path: Path) -> None:
    """What rose while nobody looked may have risen in any phase."""
    allocator, now = Allocator(), [0]
    ring = RingWriter(tmp_path / "m.ring", capacity=1024)
    memory = CudaMemory(allocator.statistics, ring, now_ns=lambda: now[0])
    memory._pause_ns = 1_000
    allocator.to(10)
    reads = [memory.allocated() for _ in range(64)]
    assert set(reads) == {10 * MIB}
    allocator.to(20, through=50)
    assert memory.allocated() == -1  # the burst is over
    now[0] = 2_000
    assert memory.allocated() == 20 * MIB
    allocator.to(20, through=80)
    assert memory.allocated() == 20 * MIB
    from probe.ring.reader import RingReader

    rows = RingReader(tmp_path / "m.ring").read(1024).rows
    names = {memory._code[figure]: str(figure) for figure in memory._code}
    peaks = [
        (names[int(row["code"])], int(row["payload"]) // MIB)
        for row in rows[rows["kind"] == Record.MEMORY]
        if "peak" in names[int(row["code"])]
    ]
    assert peaks == [("peak", 10), ("peak", 50), ("peak in phase", 80)]


def test_reading_takes_a_thousandth_of_the_time(tmp_path: Path) -> None:
    now_ns = 0

    def slow() -> dict[str, dict[str, dict[str, int]]]:
        nonlocal now_ns
        now_ns += 200_000
        return Allocator().statistics()

    ring = RingWriter(tmp_path / "m.ring", capacity=1024)
    memory = CudaMemory(slow, ring, now_ns=lambda: now_ns)
    reads = []
    while now_ns < 60_000_000_000:
        reads.append(memory.allocated() >= 0)
        now_ns += 1_000_000
    assert reads[:64] == [True] * 64 and not any(reads[64:12_000])  # a burst, and the pause
    assert sum(reads) * 200_000 <= now_ns / 1000 + 64 * 200_000  # the pause after the last is cut
