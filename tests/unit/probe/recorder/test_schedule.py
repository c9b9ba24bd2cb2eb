"""How often the recorder attributes, with and without somebody who looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe.recorder.live.page import Publisher
from probe.recorder.schedule import Cadence
from probe.store.layout import node_dir
from probe.store.live import LOOKED_FILE, Looking, look_live, read_live


def seconds_of(cadence: Cadence, until: int, seen: range = range(0)) -> tuple[list[int], ...]:
    """When it attributes, estimates and seals, asked once a second."""
    done: tuple[list[int], ...] = [], [], []
    for now in range(until):
        cadence.look(now in seen)
        if cadence.attributes(now, crowded=False):
            done[0].append(now)
            if cadence.estimates(now):
                done[1].append(now)
            if cadence.seals(now):
                done[2].append(now)
    return done


def test_a_run_that_nobody_looks_at_is_attributed_once_a_minute_and_hardly_estimated() -> None:
    attributed, estimated, sealed = seconds_of(Cadence(0.0, expected=False), 700)
    assert attributed == list(range(70, 700, 60))
    assert sealed == attributed[::2]
    assert estimated == [310, 610]


def test_who_looks_sees_what_is_ten_seconds_old_for_as_long_as_they_look() -> None:
    attributed, estimated, sealed = seconds_of(Cadence(0.0, expected=False), 300, range(33, 60))
    assert attributed == [33, 43, 53, 63, 123, 183, 243]
    assert estimated == [33, 43, 53]
    assert sealed == [123, 243]  # dearer, and for another purpose


def test_what_was_asked_for_at_the_begin_is_there_without_a_look() -> None:
    attributed, estimated, sealed = seconds_of(Cadence(0.0, expected=True), 100)
    assert attributed == estimated == list(range(10, 100, 10))
    assert sealed == [10]


def test_the_page_of_a_run_that_nobody_looks_at_is_a_little_older() -> None:
    cadence = Cadence(0.0, expected=False)
    paces = []
    for seen in (False, True, False):
        cadence.look(seen)
        paces.append(cadence.page_s)
    assert paces[0] == paces[2] > paces[1]
    assert Cadence(0.0, expected=True).page_s == paces[1]


def test_rounds_come_a_little_after_the_grid_and_less_often_in_an_old_run() -> None:
    cadence = Cadence(0.0, expected=False)
    assert cadence.wait_s(10.004, small=False) == pytest.approx(0.099)
    assert cadence.wait_s(10.05, small=False) == pytest.approx(0.053)
    assert cadence.wait_s(100.05, small=False) == pytest.approx(0.153)
    assert cadence.wait_s(100.05, small=True) == pytest.approx(0.003)
    cadence.look(True)
    assert cadence.wait_s(100.05, small=False) == pytest.approx(0.053)


def test_a_crowd_is_taken_sooner_but_not_all_the_time() -> None:
    cadence = Cadence(0.0, expected=False)
    taken = [now for now in range(30) if cadence.attributes(now, crowded=now >= 5)]
    assert taken == [5, 15, 25]


def test_a_recorder_learns_of_who_looks_by_a_change_and_not_by_their_clock(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    assert not looking.lately(1000.0)
    (tmp_path / LOOKED_FILE).touch()
    os.utime(tmp_path / LOOKED_FILE, (1.0, 1.0))  # their clock is far behind
    assert looking.lately(1001.0) and looking.lately(1030.0)
    assert not looking.lately(1032.0)
    os.utime(tmp_path / LOOKED_FILE, (2.0, 2.0))
    assert looking.lately(1033.0)


def test_looking_is_told_to_those_who_go_on_and_harms_nobody(tmp_path: Path) -> None:
    node_dir(tmp_path).mkdir()
    assert look_live(tmp_path) is None
    publisher = Publisher(tmp_path, 0)
    publisher.publish(1, [], {})
    assert read_live(tmp_path) is not None
    assert not (tmp_path / LOOKED_FILE).exists()
    assert look_live(tmp_path) == read_live(tmp_path)
    assert Looking(tmp_path).lately(0.0)
    (tmp_path / LOOKED_FILE).unlink()
    (tmp_path / LOOKED_FILE).symlink_to(tmp_path / "gone" / "away")  # cannot be written
    assert look_live(tmp_path) is not None
    assert not Looking(tmp_path).lately(0.0)
    (tmp_path / LOOKED_FILE).unlink()
    publisher.publish(2, [], {}, final=True)
    assert look_live(tmp_path, linger_s=60.0) is not None
    assert not (tmp_path / LOOKED_FILE).exists()
