"""Spans as they come are those that the report reads from all records: other threads' marks laid
over them, moved to the device's clock, in any portions.
"""

from __future__ import annotations

import numpy as np
import pytest

from probe.recorder.pipeline import timelines as module
from probe.recorder.pipeline.timelines import SETTLED_NS, Timelines
from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.timeline.ddp_reductions import DdpReductions, row
from probe.timeline.device_times import on_device
from probe.timeline.rank_timeline import timeline
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import SpanDecoder, decode

MS = 1_000_000


class Stored:
    """What the report's reader would say of one rank."""

    def __init__(self, rings):
        self._rings = rings

    def rings(self, rank):
        return self._rings

    def names(self, rank, ring):
        return {}

    def closed_steps(self, rank, rows):
        return rows["time_ns"][rows["kind"] == Record.STEP].astype(np.int64)


def rows_of(records) -> np.ndarray:
    slots = np.zeros(len(records), SLOT_DTYPE)
    for number, (time_ns, kind, code, payload) in enumerate(records):
        slots[number] = (time_ns, payload, number + 1, kind, code, 0)
    return slots


def training(*, device: bool, threads: bool, seed: int = 0):
    """A main ring and the autograd engine's, over some 20 s."""
    rng = np.random.default_rng(seed)
    main, other = [], []
    now = reached = 1000 * MS
    for step in range(400):
        passed = []
        for code in (Code.DATA, Code.FORWARD, Code.BACKWARD, Code.OPTIMIZER):
            main.append((now, Record.MARK, code, -1))
            reached = max(reached, now) + int(rng.integers(1, 20)) * MS
            passed.append((now, Record.DEVICE, code, reached))
            length = int(rng.integers(2, 25)) * MS
            if code == Code.BACKWARD and threads:
                for begin, end, what in (
                    (0.2, 0.4, Code.RECOMPUTE),
                    (0.5, 0.9, Code.COMMUNICATION),
                ):
                    other.append((now + int(begin * length), Record.MARK, what, -1))
                    other.append((now + int(end * length), Record.LEAVE, what, 0))
            now += length
        now = max(now, reached)
        main.append((now, Record.STEP, 0, step))
        if device:
            main += passed
    main.append((now + MS, Record.END, 0, 0))
    return rows_of(main), rows_of(other)


def streamed(main, other, *, portions: int, seed: int, every: int = 7):
    """As the recorder drains and hands on: the main ring first, the other right after it."""
    rng = np.random.default_rng(seed)
    timelines, decoder = Timelines(), SpanDecoder()
    host, device = [], []

    def take(now_ns):
        settled = timelines.take(now_ns)
        if 0 in settled:
            host.append(settled[0].host)
            if settled[0].device is not None:
                device.append(settled[0].device)

    begin = other_begin = 0
    cuts = np.append(np.sort(rng.integers(1, len(main), portions)), len(main))
    for number, cut in enumerate(cuts.tolist()):
        rows = main[begin:cut]
        timelines.add(0, "main0", rows, decoder.feed(rows, holes=()))
        until = int(main["time_ns"][:cut].max())
        to = int(np.searchsorted(other["time_ns"], np.uint64(until), "right"))
        if to > other_begin:
            timelines.add(0, "thread1", other[other_begin:to], None)
        begin, other_begin = cut, to
        if number % every == every - 1:
            take(until)
    timelines.add(0, "main0", main[:0], decoder.finish())
    take(None)
    return timelines, SpanTable.concat(host), SpanTable.concat(device) if device else None


def same(table: SpanTable, expected) -> None:
    inside = table.code != Code.OUTSIDE
    for ours, theirs in (
        (table.begin_ns, expected.begin_ns),
        (table.end_ns, expected.end_ns),
        (table.code, expected.code),
        (table.entered, expected.entered),
    ):
        assert np.array_equal(ours[inside], theirs)


@pytest.mark.parametrize("portions", [3, 60, 500])
@pytest.mark.parametrize(
    ("device", "threads"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_in_any_portions_they_are_the_reports(device: bool, threads: bool, portions: int) -> None:
    main, other = training(device=device, threads=threads)
    rings = [("main0", main), *([("thread1", other)] if threads else [])]
    timelines, host, moved = streamed(main, other, portions=portions, seed=portions)
    expected = timeline(Stored(rings), 0)
    same(host, expected)
    assert timelines.on_device(0) == device and not timelines.lost
    assert timelines.rings(0) == [name for name, _ in rings]
    if device:
        assert moved is not None
        same(moved, timeline(Stored(rings), 0, device=True))
    else:
        assert moved is None and timeline(Stored(rings), 0, device=True) is None


def test_a_device_that_comes_late_is_left_to_the_raw_data() -> None:
    before, other = training(device=False, threads=False)
    after, _ = training(device=True, threads=False, seed=1)
    after = after.copy()
    after["time_ns"] += before["time_ns"].max() - after["time_ns"].min() + np.uint64(MS)
    moved = after["kind"] == Record.DEVICE
    after["payload"][moved] += int(before["time_ns"].max()) - 1000 * MS
    both = np.concatenate([before[:-1], after])
    both["sequence"] = np.arange(1, len(both) + 1)
    timelines, _, device = streamed(both, other, portions=100, seed=3)
    assert device is None and timelines.lost == {0}


def test_what_cannot_be_followed_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    main, _ = training(device=False, threads=False)
    monkeypatch.setattr(module, "MOST_SPANS", 1000)
    timelines = Timelines()
    timelines.add(0, "main0", main, SpanDecoder().feed(main, holes=()))
    assert timelines.lost == {0} and "more than 1000 phases" in timelines.warnings[0]
    assert timelines.take(None) == {}
    monkeypatch.setattr(module, "MOST_SPANS", len(main))
    crowded = Timelines()
    crowded.add(0, "main0", main, SpanDecoder().feed(main, holes=()))
    assert crowded.crowded and not crowded.lost
    crowded.take(None)
    assert not crowded.crowded
    broken = Timelines()
    broken.add(0, "main0", main, "no table")
    assert broken.take(None) == {} and broken.lost == {0}
    assert "AttributeError" in broken.warnings[0]
    again = Timelines()
    again.add(0, "main0", main[:0], SpanTable.empty())
    again.add(0, "main1", main[:0], SpanTable.empty())  # the rank was started again
    assert again.lost == {0} and not again.warnings


def test_nothing_is_held_for_long() -> None:
    main, other = training(device=True, threads=True)
    timelines, decoder = Timelines(), SpanDecoder()
    for part in np.array_split(main, 50):
        timelines.add(0, "main0", part, decoder.feed(part, holes=()))
        until = int(part["time_ns"].max())
        recent = other[(other["time_ns"] <= until) & (other["time_ns"] > until - 500 * MS)]
        timelines.add(0, "thread1", recent, None)
        timelines.take(until)
        rank = timelines._ranks[0]
        assert rank.waiting < 2.5 * len(main) * SETTLED_NS / np.ptp(main["time_ns"].astype(float))
        assert len(rank.others["thread1"]) < 400


def reducing(*, device: bool):
    """60 steps of three micro-batches. A host takes 1 ms for each backward that it launches; the
    device takes 5 ms, and 9 where it reduces, the last 3 of them in waiting.
    """
    main = []
    now = reached = 1000 * MS
    for step in range(60):
        for sync in (0, 0, 1):
            main.append((now, Record.SYNC, sync, 0))
            passed = []
            for code, host_ms, device_ms in (
                (Code.FORWARD, 1.0, 2.0),
                (Code.BACKWARD, 0.9, 6.0 if sync else 5.0),
                *(((Code.COMMUNICATION, 0.1, 3.0),) if sync else ()),
                (Code.OTHER, 0.5, 1.0),
            ):
                main.append((now, Record.MARK, code, -1))
                reached = max(reached, now)
                passed.append((now, Record.DEVICE, code, reached))
                now += round(host_ms * MS)
                reached += round(device_ms * MS)
            if device:
                main += passed
        main.append((now, Record.STEP, 3, step))
        now = max(now, reached - 20 * MS)  # the host runs ahead by so much
    main.append((now + 100 * MS, Record.END, 0, 0))
    return rows_of(main)


@pytest.mark.parametrize("portions", [3, 200])
@pytest.mark.parametrize("device", [False, True])
def test_what_reducing_costs_lies_on_the_devices_clock(device: bool, portions: int) -> None:
    main = reducing(device=device)
    timelines, _, _ = streamed(main, main[:0], portions=portions, seed=portions)
    cost = row(0, "", timelines.reductions()[0], 0.0, 60)
    assert cost is not None
    assert cost.exposed_s == pytest.approx(3e-3 if device else 0.1e-3, rel=0.01)
    assert cost.cost_s == pytest.approx(4e-3 if device else 0.1e-3, rel=0.01)
    raw = DdpReductions()
    clocked = on_device(main) if device else main
    raw.feed(clocked, decode(clocked))
    for name, sums in raw.state().items():
        assert timelines.reductions()[0][name] == pytest.approx(sums), name
