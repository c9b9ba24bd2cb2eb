"""Edges move to the time at which the device reached them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.timeline.device_times import DeviceTimeShift, on_device
from probe.timeline.phase_totals import PhaseCounter
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import decode


def records(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """(time, kind, code, payload) in the order of writing."""
    slots = np.zeros(len(rows), SLOT_DTYPE)
    for i, (time_ns, kind, code, payload) in enumerate(rows):
        slots[i] = (time_ns, payload, i + 1, kind, code, 0)
    return slots


def test_a_launch_is_short_and_its_work_is_long() -> None:
    mark, device = Record.MARK, Record.DEVICE
    rows = records(
        (100, mark, Code.FORWARD, -1),
        (110, mark, Code.BACKWARD, -1),
        (120, mark, Code.OTHER, -1),
        (100, device, Code.FORWARD, 105),
        (110, device, Code.BACKWARD, 400),
        (120, device, Code.OTHER, 1000),
        (130, Record.END, 0, 0),
    )
    host = decode(rows)
    assert (host.end_ns - host.begin_ns)[:2].tolist() == [10, 10]
    moved = on_device(rows)
    assert moved is not None
    spans = decode(moved)
    assert spans.code[:2].tolist() == [Code.FORWARD, Code.BACKWARD]
    assert spans.begin_ns[:2].tolist() == [105, 400]
    assert spans.end_ns[:2].tolist() == [400, 1000]


def test_an_edge_without_an_event_lags_as_its_neighbours() -> None:
    mark, device = Record.MARK, Record.DEVICE
    rows = records(
        (100, mark, 2, -1),
        (200, mark, 3, -1),
        (300, mark, 9, -1),
        (100, device, 2, 150),
        (300, device, 9, 450),
        (400, Record.END, 0, 0),
    )
    moved = on_device(rows)
    assert moved is not None
    assert moved["time_ns"].tolist() == [150, 300, 450, 550]


def test_without_device_times_there_is_no_device_timeline() -> None:
    assert on_device(records((100, Record.MARK, 2, -1), (200, Record.END, 0, 0))) is None


def test_device_times_between_marks_are_no_hole() -> None:
    mark, device = Record.MARK, Record.DEVICE
    rows = records(
        (100, mark, Code.FORWARD, -1),
        (110, mark, Code.BACKWARD, -1),
        (100, device, Code.FORWARD, 105),
        (110, device, Code.BACKWARD, 400),
        (500, mark, Code.OTHER, -1),
        (500, device, Code.OTHER, 900),
        (950, Record.END, 0, 0),
    )
    moved = on_device(rows)
    assert moved is not None
    spans = decode(moved)
    assert spans.code[:3].tolist() == [Code.FORWARD, Code.BACKWARD, Code.OTHER]
    assert spans.begin_ns[:3].tolist() == [105, 400, 900]
    # A real hole is one still: marks are missing after the first.
    rows["sequence"][1:] += 3
    moved = on_device(rows)
    assert moved is not None
    assert decode(moved).code[:2].tolist() == [Code.OUTSIDE, Code.BACKWARD]


def test_moved_as_they_come_or_at_once_they_are_the_same() -> None:
    rng = np.random.default_rng(4)
    now, reached, settled = 1000, 1000, []
    parts = []
    for step in range(400):
        for code in (Code.DATA, Code.FORWARD, Code.BACKWARD, Code.OPTIMIZER):
            now += int(rng.integers(50, 200))
            reached = max(reached + int(rng.integers(100, 400)), now)
            parts.append((now, Record.MARK, code, -1))
            if rng.random() > 0.1:  # an event may be dropped
                settled.append((now, Record.DEVICE, code, reached))
        now = max(now, reached)  # the step waits for its loss
        parts.append((now, Record.STEP, 0, step))
        parts += settled  # complete by now
        settled = []
    rows = records(*parts)
    whole = on_device(rows)
    assert whole is not None
    moving = DeviceTimeShift()
    pieces = [
        moving.feed(part) for part in np.array_split(rows, np.sort(rng.integers(0, len(rows), 60)))
    ]
    pieces.append(moving.finish())
    joined = np.concatenate(pieces)
    assert np.array_equal(joined["sequence"], whole["sequence"])
    assert np.array_equal(joined["time_ns"], whole["time_ns"])
    assert moving.is_known


def test_phase_totals_are_the_same_in_any_portions() -> None:
    rng = np.random.default_rng(2)
    code = rng.choice([Code.DATA, Code.FORWARD, Code.BACKWARD, Code.OUTSIDE, 300], 500)
    edges = np.cumsum(rng.integers(1, 50, 501))
    zero, yes = np.zeros(500, np.int64), np.ones(500, np.bool_)
    table = SpanTable(edges[:-1], edges[1:], code, zero, zero, ~yes, yes)
    whole, parts = PhaseCounter(), PhaseCounter()
    whole.take(table)
    for part in np.array_split(np.arange(500), 37):
        parts.take(table.take(part))
    assert whole == parts
    inside = [int(c) for c in code if c != Code.OUTSIDE]
    follows = Counter((a, b) for a, b in itertools.pairwise(inside) if a != b)
    assert whole.follows == follows and whole.counts == Counter(inside)


def test_the_first_visit_of_a_phase_is_summed_up_in_any_portions() -> None:
    """A visit that a nested phase interrupts goes on behind it."""
    code = np.array([Code.DATA, Code.FORWARD, 300, Code.FORWARD, Code.DATA, Code.FORWARD])
    entered = np.array([True, True, True, False, True, True])
    edges = np.cumsum([0, 7, 100, 30, 50, 7, 20])
    zero, no = np.zeros(6, np.int64), np.zeros(6, np.bool_)
    table = SpanTable(edges[:-1], edges[1:], code, zero, zero, no, entered)
    for cuts in ([], [2], [3], [1, 3, 4]):
        counter = PhaseCounter()
        for part in np.split(np.arange(6), cuts):
            counter.take(table.take(part))
        assert counter.first_ns == {Code.DATA: 7, Code.FORWARD: 150, 300: 30}
