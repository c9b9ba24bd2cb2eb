"""Work that may have a share of a core waits until it has had less."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.recorder.cpu_share import CpuShare
from probe.recorder.live import page
from probe.recorder.live.page import LivePageStage
from tests.fakes.virtual_clock import VirtualClock
from tests.unit.probe.recorder.test_live_page import counter

Spend = Callable[[float], None]


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch) -> Spend:
    """Lets CPU time of the thread pass."""
    spent_s = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: spent_s[0])

    def passes(seconds: float) -> None:
        spent_s[0] += seconds

    return passes


def test_work_waits_until_it_had_no_more_than_its_share(spend: Spend) -> None:
    clock = VirtualClock()
    work = CpuShare(clock, 0.02)
    assert work.due()
    for _ in range(2):  # a piece each for two devices
        with work:
            spend(0.1)
    clock.sleep(9.9)
    assert not work.due()
    clock.sleep(0.2)
    assert work.due()


def test_the_first_pieces_may_be_free(spend: Spend) -> None:
    clock = VirtualClock()
    work = CpuShare(clock, 0.02, free_s=1.0)
    with work:
        spend(0.9)
    assert work.due()
    with work:
        spend(0.2)
    assert not work.due()
    clock.sleep(10.1)
    assert work.due()


def test_a_viewer_of_many_devices_costs_a_few_percent_of_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spend: Spend
) -> None:
    solved = []

    def rate_rows(source: object, *_: object) -> list[object]:
        solved.append(source)
        spend(0.05)
        return []

    monkeypatch.setattr(page, "rate_rows", rate_rows)
    monkeypatch.setattr(page, "is_rate", lambda _: True)
    clock = VirtualClock()
    publisher = LivePageStage(tmp_path, 0, clock)
    statistics = [(counter(), 0, None)] * 40
    for _ in range(60):  # ten minutes, looked at every ten seconds
        publisher.estimates(statistics, clock.now_ns(), {})  # type: ignore[arg-type]
        clock.sleep(10.0)
    # 2 s each: four until what is free is used up, one more for 1 % of ten minutes.
    assert len(solved) == 40 * (4 + 2)
