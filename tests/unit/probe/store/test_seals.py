"""A run that is over is read once its recorder has written how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.model import RunStatus
from probe.store import seals
from probe.store.processes import start_ticks

from .test_status import change, join, make

LOOKS = 3


def seen(*, sealed_after: float) -> Callable[[Path], object]:
    """A reader of a run whose recorder, so far unseen, seals it after some looks."""
    looks = [0]

    class Reader:
        def __init__(self, _run: Path):
            looks[0] += 1
            sealed = looks[0] > sealed_after
            self.meta = {"status": str(RunStatus.FINISHED if sealed else RunStatus.RUNNING)}
            self.status = RunStatus.FINISHED if sealed else RunStatus.KILLED

    Reader.looks = looks  # type: ignore[attr-defined]
    return Reader


def test_a_recorder_that_was_not_seen_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    late = seen(sealed_after=LOOKS)
    monkeypatch.setattr(seals, "RunReader", late)
    seals.await_seal(Path("run"))
    assert late.looks[0] == LOOKS + 1  # type: ignore[attr-defined]


def test_one_that_never_comes_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals, "RunReader", seen(sealed_after=float("inf")))
    monkeypatch.setattr(seals, "_UNSEEN_S", 0.2)
    begin_s = time.monotonic()
    seals.await_seal(Path("run"))
    assert 0.2 <= time.monotonic() - begin_s < seals._SEAL_S / 2


DEAD = (2**22 - 1, 1)  # no such process
OURS = (os.getpid(), start_ticks(os.getpid()) or 0)


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The runs whose seal was waited for."""
    runs: list[Path] = []
    monkeypatch.setattr(seals, "await_seal", lambda run, _say: runs.append(run))
    return runs


def recorded_by(run: Path, process: tuple[int, int]) -> None:
    pid, ticks = process
    change(run, recorder={"pid": pid, "start_ticks": ticks})


def test_a_run_whose_process_has_gone_is_waited_for(tmp_path: Path, awaited: list[Path]) -> None:
    run = make(tmp_path)
    join(run, *DEAD)
    recorded_by(run, OURS)
    assert seals.await_end(run) == run
    assert awaited == [run]


def test_one_whose_recorder_is_starting_is_waited_for_a_minute(
    tmp_path: Path, awaited: list[Path]
) -> None:
    run = make(tmp_path)
    join(run, *DEAD)
    seals.await_end(run)
    assert awaited == [run]
    change(run, begin_ns=time.monotonic_ns() - 61 * 10**9)
    seals.await_end(run)
    assert awaited == [run]


def test_one_whose_process_left_its_block_and_lives_is_waited_for(
    tmp_path: Path, awaited: list[Path]
) -> None:
    run = make(tmp_path)
    join(run, *OURS, info={"left": True})
    recorded_by(run, OURS)
    seals.await_end(run)
    assert awaited == [run]


def test_one_whose_ranks_are_started_again_is_not_waited_for(
    tmp_path: Path, awaited: list[Path]
) -> None:
    run = make(tmp_path)
    join(run, *DEAD, attempts_left=1, launcher=OURS)
    recorded_by(run, OURS)
    seals.await_end(run)
    assert awaited == []


def test_one_in_another_container_is_not_waited_for(tmp_path: Path, awaited: list[Path]) -> None:
    run = make(tmp_path)
    join(run, *DEAD)
    recorded_by(run, OURS)
    change(run, pid_namespace=1)
    seals.await_end(run)
    assert awaited == []


@pytest.mark.parametrize("process", [OURS, DEAD], ids=["trains", "killed with its recorder"])
def test_no_other_one_is_waited_for(
    process: tuple[int, int], tmp_path: Path, awaited: list[Path]
) -> None:
    run = make(tmp_path)
    join(run, *process)
    recorded_by(run, process)
    seals.await_end(run)
    change(run, status="finished")
    seals.await_end(run)
    assert awaited == []
