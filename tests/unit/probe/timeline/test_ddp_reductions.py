"""Made-up steps of a DDP rank: what is paired, what is left out, in one batch or many."""

from __future__ import annotations

import numpy as np
import pytest

from probe.ring.layout import REDUCTIONS_WARM_UP, Code, CommCode, Record
from probe.ring.reader import SLOT_DTYPE
from probe.timeline import ddp_reductions
from probe.timeline.ddp_reductions import DdpReductions, row
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import SpanDecoder
from tests.fakes.span_sums import seconds

MS = 1_000_000


def edges(
    steps: int,
    lengths: list[float],
    syncs: list[int],
    adding_ms: float | None = None,
    tail_ms: float = 0.0,
    blocking_ms: float = 0.0,
) -> np.ndarray:
    """Steps of so many micro-batches; a backward takes what ``lengths`` says, in ms, of which
    it waits ``tail_ms`` at its end if it reduces; later a collective blocks.
    """
    records: list[tuple[int, int, int, int]] = []
    now = MS
    for step in range(steps):
        for length, sync in zip(lengths, syncs, strict=True):
            records.append((now, Record.SYNC, sync, 0))
            records.append((now, Record.MARK, Code.FORWARD, -1))
            records.append((now + 2 * MS, Record.MARK, Code.BACKWARD, -1))
            now += 2 * MS + round(length * MS) + (step % 3) * 1000
            if tail_ms and sync:
                records.append((now - round(tail_ms * MS), Record.MARK, Code.COMMUNICATION, -1))
            records.append((now, Record.MARK, Code.OTHER, -1))
            now += MS
            if blocking_ms:
                records.append((now, Record.MARK, Code.COMMUNICATION, -1))
                now += round(blocking_ms * MS)
                records.append((now, Record.MARK, Code.OTHER, -1))
                now += MS
        if adding_ms is not None:
            records.append((now, Record.COMM, CommCode.ADDING, round(adding_ms * MS)))
        records.append((now, Record.STEP, len(lengths), step))
    rows = np.zeros(len(records), SLOT_DTYPE)
    for place, (time_ns, kind, code, payload) in enumerate(records):
        rows[place] = (time_ns, payload, place + 1, kind, code, 0)
    return rows


def fed(rows: np.ndarray, batch: int) -> DdpReductions:
    reductions, decoder = DdpReductions(), SpanDecoder()
    for begin in range(0, len(rows), batch):
        part = rows[begin : begin + batch]
        reductions.feed(part, decoder.feed(part))
    reductions.feed(rows[:0], decoder.finish())
    return reductions


@pytest.mark.parametrize("batch", [7, 100_000])
def test_the_backward_that_reduces_less_the_others_without_the_first(batch: int) -> None:
    reductions = fed(edges(40, [5.0, 8.0, 8.0, 20.0], [0, 0, 0, 1]), batch)
    # The last step is not closed by another.
    assert reductions.cost.number == 39 - REDUCTIONS_WARM_UP
    assert reductions.cost.mean() == pytest.approx(12e-3, rel=1e-3)
    table_row = row(3, "here", reductions.state(), 0.0, 40)
    assert table_row is not None and table_row.rank == 3
    low, high = table_row.cost_s_interval
    assert low <= table_row.cost_s <= high
    assert table_row.contention_s is None  # without timers the exposed part is unknown


def test_of_two_the_first_has_to_do_and_that_is_said() -> None:
    reductions = fed(edges(30, [5.0, 9.0], [0, 1]), 50)
    assert reductions.cost.mean() == pytest.approx(4e-3, rel=1e-3)
    table_row = row(0, "", reductions.state(), 0.0, 30)
    assert table_row is not None and "at most" in table_row.method


def test_what_the_second_adds_is_taken_off_where_it_was_timed() -> None:
    reductions = fed(edges(30, [5.0, 9.0], [0, 1], adding_ms=1.5), 50)
    table_row = row(0, "", reductions.state(), 0.0, 30)
    assert table_row is not None and table_row.cost_s == pytest.approx(2.5e-3, rel=1e-3)
    assert "at most" not in table_row.method and "timed apart" in table_row.method
    low, high = table_row.cost_s_interval
    assert low <= table_row.cost_s <= high
    four = row(0, "", fed(edges(30, [5.0, 5.0, 5.0, 9.0], [0, 0, 0, 1]), 50).state(), 0.0, 30)
    assert four is not None and "at most" not in four.method


@pytest.mark.parametrize("syncs", [[1, 1], [0, 0], [1], []])
def test_without_both_kinds_in_a_step_nothing_is_claimed(syncs: list[int]) -> None:
    reductions = fed(edges(30, [5.0] * len(syncs), syncs), 50) if syncs else DdpReductions()
    assert reductions.cost.mean() is None
    assert row(0, "", reductions.state(), 0.0, 30) is None


def test_timers_are_told_beside_and_never_added() -> None:
    rows = edges(20, [5.0, 25.0], [0, 1])
    timed = np.zeros(12, SLOT_DTYPE)
    timed["kind"], timed["time_ns"] = Record.COMM, int(rows["time_ns"][-1])
    timed["code"] = [CommCode.BUSY, CommCode.EXPOSED] * 6
    timed["payload"] = [18 * MS, 6 * MS] * 6
    reductions = fed(rows, 1000)
    reductions.feed(timed, None)
    table_row = row(0, "", reductions.state(), 20e-3, 20)
    assert table_row is not None
    assert table_row.busy_s == pytest.approx(18e-3)
    assert table_row.exposed_s == pytest.approx(6e-3)
    assert table_row.cost_s == pytest.approx(20e-3, rel=1e-3)
    assert table_row.contention_s == pytest.approx(14e-3, rel=1e-2)
    assert table_row.blocking_s == pytest.approx(1e-3)


@pytest.mark.parametrize("batch", [7, 100_000])
def test_what_backward_waits_at_its_end_is_exposed_and_the_rest_blocks(batch: int) -> None:
    steps = 40
    rows = edges(steps, [5.0, 8.0, 8.0, 20.0], [0, 0, 0, 1], tail_ms=6.0, blocking_ms=0.5)
    reductions = fed(rows, batch)
    table = SpanTable.concat([(decoder := SpanDecoder()).feed(rows), decoder.finish()])
    table_row = row(
        0,
        "",
        reductions.state(),
        float(
            sum(spent for (_, code), spent in seconds(table).items() if code == Code.COMMUNICATION)
        ),
        steps,
    )
    assert table_row is not None
    assert table_row.exposed_s == pytest.approx(6e-3)
    assert table_row.cost_s == pytest.approx(12e-3, rel=1e-3)  # of the whole backward
    assert table_row.contention_s == pytest.approx(6e-3, rel=1e-2)
    assert table_row.blocking_s == pytest.approx(4 * 0.5e-3)
    assert reductions.exposed.number == 39 - REDUCTIONS_WARM_UP
    assert "after the last gradient" in table_row.method and "waited for" in table_row.method


def test_without_accumulation_the_tail_alone_is_known() -> None:
    table_row = row(0, "", fed(edges(30, [9.0], [1], tail_ms=2.0), 50).state(), 30 * 2e-3, 30)
    assert table_row is not None
    assert table_row.exposed_s == pytest.approx(2e-3)
    assert table_row.cost_s is None and table_row.blocking_s is None


def test_kinds_of_modules_and_collectives_amid_are_of_the_backward() -> None:
    """``modules=True`` gives parts of a backward names of their own."""
    records: list[tuple[int, int, int, int]] = []
    now = MS
    for step in range(30):
        for sync in (0, 0, 1):
            records.append((now, Record.SYNC, sync, 0))
            for code, length in (
                (Code.FORWARD, 2),
                (Code.BACKWARD, 1),
                (Code.USER + 3, 2),
                (Code.BACKWARD, 1),
                (Code.COMMUNICATION, 1),
                (Code.USER + 4, 2 + 3 * sync),
                (Code.OTHER, 1),
            ):
                records.append((now, Record.MARK, code, -1))
                now += length * MS
        records.append((now, Record.STEP, 3, step))
    rows = np.zeros(len(records), SLOT_DTYPE)
    for place, (time_ns, kind, code, payload) in enumerate(records):
        rows[place] = (time_ns, payload, place + 1, kind, code, 0)
    reductions = fed(rows, 23)
    assert reductions.cost.mean() == pytest.approx(3e-3)
    assert reductions.exposed.number == 0  # that collective is not at the end


def test_a_step_that_never_closes_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddp_reductions, "_MOST_HELD", 50)
    rows = edges(60, [5.0], [1], tail_ms=1.0)
    rows = rows[rows["kind"] != Record.STEP]
    rows["sequence"] = np.arange(1, len(rows) + 1)
    reductions = fed(rows, 20)
    assert (
        len(reductions._held) <= 50 and len(reductions._syncs) <= 50 // 4 + 2
    )  # four spans a step
    assert reductions.state()["tails_s"] == pytest.approx(60e-3)
