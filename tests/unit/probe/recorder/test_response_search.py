"""The search for a meter's response pauses in the recorder, and resumes when updates pile up."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from probe.recorder.pipeline import attribution as module
from probe.recorder.pipeline.attribution import AttributionStage
from tests.fakes.virtual_clock import VirtualClock

PIECE_S = 0.002


class Searched:
    """An accumulator whose search takes some pieces of CPU time."""

    def __init__(self, pieces: int, waiting: float = 0.0):
        self.left, self.waiting, self.begun = pieces, waiting, False

    @property
    def must_search(self) -> bool:
        return self.left > 0

    @property
    def searching(self) -> bool:
        return self.begun and self.left > 0

    def advance(self, *, pieces: int) -> None:
        self.begun = True
        self.left -= pieces
        end_s = time.thread_time() + PIECE_S
        while time.thread_time() < end_s:
            pass


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def stage(run: Path, clock: VirtualClock, **meters: Searched) -> AttributionStage:
    attributing = AttributionStage(run, 0, clock)
    for name, accumulator in meters.items():
        source = SimpleNamespace(id=name)
        attributing._meters[name] = module._AttributedMeter(source, 0, accumulator)
    return attributing


def test_a_short_search_does_not_pause(tmp_path, clock) -> None:
    meter = Searched(5)
    attributing = stage(tmp_path, clock, meter=meter)
    for _ in range(5):
        attributing.search_on()
    assert not meter.left


def test_a_long_search_pauses_by_what_it_costs(tmp_path, clock, monkeypatch) -> None:
    monkeypatch.setattr(module, "_SEARCH_AT_ONCE_S", 0.0)
    meter = Searched(5)
    attributing = stage(tmp_path, clock, meter=meter)
    for _ in range(5):
        attributing.search_on()
    assert meter.left == 4
    clock.sleep(0.9 * PIECE_S / module._SEARCH_CPU)
    attributing.search_on()
    assert meter.left == 4
    clock.sleep(60.0)
    attributing.search_on()
    assert meter.left == 3


def test_updates_that_pile_up_end_the_pause(tmp_path, clock, monkeypatch) -> None:
    monkeypatch.setattr(module, "_SEARCH_AT_ONCE_S", 0.0)
    crowded, other = Searched(4, waiting=0.6), Searched(3)
    attributing = stage(tmp_path, clock, other=other, crowded=crowded)
    for _ in range(3):
        attributing.search_on()
    assert (crowded.left, other.left) == (1, 3)


def test_a_search_is_ended_before_the_next_begins(tmp_path, clock) -> None:
    first, second = Searched(3), Searched(3)
    attributing = stage(tmp_path, clock, first=first, second=second)
    attributing.search_on()
    second.waiting = 0.3
    attributing.search_on()
    assert (first.left, second.left) == (1, 3)
