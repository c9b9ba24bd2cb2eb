"""How often the recorder attributes, with and without somebody who looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe.clock import MACHINE_CLOCK
from probe.recorder.live.page import LivePageStage
from probe.recorder.schedule import SCRAPED_PAGE_S, Schedule, Timer
from probe.store.layout import LOOKED_FILE, node_dir
from probe.store.live import ViewerWatch, look_live, read_live


def seconds_of(schedule: Schedule, until: int, seen: range = range(0)) -> tuple[list[int], ...]:
    """When it attributes, estimates and seals, asked once a second."""
    done: tuple[list[int], ...] = [], [], []
    for now in range(until):
        schedule.look(now in seen)
        if schedule.attribution_due(now, crowded=False):
            done[0].append(now)
            if schedule.estimate_due(now):
                done[1].append(now)
            if schedule.save_due(now):
                done[2].append(now)
    return done


def test_a_run_that_nobody_looks_at_is_attributed_once_a_minute_and_hardly_estimated() -> None:
    attributed, estimated, sealed = seconds_of(Schedule(0.0, expected=False), 700)
    assert attributed == list(range(70, 700, 60))
    assert sealed == attributed[::2]
    assert estimated == [310, 610]


def test_who_looks_sees_what_is_ten_seconds_old_for_as_long_as_they_look() -> None:
    attributed, estimated, sealed = seconds_of(Schedule(0.0, expected=False), 300, range(33, 60))
    assert attributed == [33, 43, 53, 63, 123, 183, 243]
    assert estimated == [33, 43, 53]
    assert sealed == [123, 243]  # dearer, and for another purpose


def test_what_was_asked_for_at_the_begin_is_there_without_a_look() -> None:
    attributed, estimated, sealed = seconds_of(Schedule(0.0, expected=True), 100)
    assert attributed == estimated == list(range(10, 100, 10))
    assert sealed == [10]


def test_the_page_of_a_run_that_nobody_looks_at_is_a_little_older() -> None:
    schedule = Schedule(0.0, expected=False)
    paces = []
    for seen in (False, True, False):
        schedule.look(seen)
        paces.append(schedule.drain_s)
    assert paces[0] == paces[2] > paces[1]
    assert Schedule(0.0, expected=True).drain_s == paces[1]


def test_the_page_of_a_scraped_run_is_young_and_its_rings_are_drained_as_for_a_viewer() -> None:
    schedule = Schedule(0.0, scraped=True)
    assert schedule.page_s == SCRAPED_PAGE_S
    assert schedule.drain_s == Schedule(0.0, expected=True).page_s


def test_a_timer_is_due_at_once_then_after_its_time_or_early() -> None:
    timer = Timer()
    due = [now for now in range(12) if timer.due(now, 5.0, early=now == 7)]
    assert due == [0, 5, 7]


def test_rounds_come_a_little_after_the_grid_and_less_often_in_an_old_run() -> None:
    schedule = Schedule(0.0, expected=False)
    assert schedule.wait_s(10.004, small=False) == pytest.approx(0.099)
    assert schedule.wait_s(10.05, small=False) == pytest.approx(0.053)
    assert schedule.wait_s(100.05, small=False) == pytest.approx(0.153)
    assert schedule.wait_s(100.05, small=True) == pytest.approx(0.003)
    schedule.look(True)
    assert schedule.wait_s(100.05, small=False) == pytest.approx(0.053)


def test_a_crowd_is_taken_sooner_but_not_all_the_time() -> None:
    schedule = Schedule(0.0, expected=False)
    taken = [now for now in range(30) if schedule.attribution_due(now, crowded=now >= 5)]
    assert taken == [5, 15, 25]


def test_a_recorder_learns_of_who_looks_by_a_change_and_not_by_their_clock(tmp_path: Path) -> None:
    viewers = ViewerWatch(tmp_path)
    assert not viewers.active(1000.0)
    (tmp_path / LOOKED_FILE).touch()
    os.utime(tmp_path / LOOKED_FILE, (1.0, 1.0))  # their clock is far behind
    assert viewers.active(1001.0) and viewers.active(1030.0)
    assert not viewers.active(1032.0)
    os.utime(tmp_path / LOOKED_FILE, (2.0, 2.0))
    assert viewers.active(1033.0)


def test_looking_is_told_to_those_who_go_on_and_harms_nobody(tmp_path: Path) -> None:
    node_dir(tmp_path).mkdir()
    assert look_live(tmp_path) is None
    publisher = LivePageStage(tmp_path, 0, MACHINE_CLOCK)
    publisher.publish(1, [], {}, [])
    assert read_live(tmp_path) is not None
    assert not (tmp_path / LOOKED_FILE).exists()
    assert look_live(tmp_path) == read_live(tmp_path)
    assert ViewerWatch(tmp_path).active(0.0)
    (tmp_path / LOOKED_FILE).unlink()
    (tmp_path / LOOKED_FILE).symlink_to(tmp_path / "gone" / "away")  # cannot be written
    assert look_live(tmp_path) is not None
    assert not ViewerWatch(tmp_path).active(0.0)
    (tmp_path / LOOKED_FILE).unlink()
    publisher.publish(2, [], {}, [], final=True)
    assert look_live(tmp_path, linger_s=60.0) is not None
    assert not (tmp_path / LOOKED_FILE).exists()
