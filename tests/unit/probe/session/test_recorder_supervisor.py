"""When a training process starts its recorder again, waits for it, and gives up: virtual time.

Ranks that find their recorder dead at the same moment start one recorder, not two.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from probe.recorder.spawn import claim, current_epoch
from probe.session import recorder_supervisor
from probe.session.recorder_supervisor import SEAL_WAIT_S, Supervisor
from probe.store.layout import lease_path
from tests.fakes import processes
from tests.fakes.virtual_clock import NS, VirtualClock

NO_SUCH_PID = 2**22 + 1  # above the kernel's largest
DEAD, HANGING = NO_SUCH_PID, os.getpid()


class Ring:
    """The words of a ring whose recorder beat last at ``beat_ns``."""

    sealed = held = False

    def __init__(self, pid: int = DEAD, beat_ns: int = 0, epoch: int = 1):
        self.reader_pid, self.beat_ns, self.reader_epoch = pid, beat_ns, epoch
        self.meanwhile: Callable[[], object] = lambda: None  # runs after the beat is read

    @property
    def heartbeat_ns(self) -> int:
        beat_ns = self.beat_ns
        self.meanwhile()
        return beat_ns


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> list[int]:
    """Fencing numbers of the recorders that were started."""
    numbers: list[int] = []

    def spawn(run: Path, epoch: int) -> None:
        numbers.append(epoch)
        date_lease(run, epoch, clock)

    monkeypatch.setattr(recorder_supervisor, "spawn_aside", spawn)
    lease(tmp_path, 1, clock)
    return numbers


def lease(run: Path, epoch: int, clock: VirtualClock) -> None:
    """A recorder is claimed now, by the virtual clock."""
    assert claim(run, epoch)
    date_lease(run, epoch, clock)


def date_lease(run: Path, epoch: int, clock: VirtualClock) -> None:
    os.utime(lease_path(run, epoch), (clock.wall_s(), clock.wall_s()))


def checked_each_second(supervisor: Supervisor, clock: VirtualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.sleep(1.0)
        supervisor.check(clock.now_ns())


def long_dead(clock: VirtualClock) -> Any:
    return Ring(DEAD, clock.now_ns() - 60 * NS)


@pytest.mark.parametrize(
    ("pid", "beat", "patience_s"),
    [(DEAD, True, 1.5), (HANGING, True, 5.0), (0, False, 10.0)],
    ids=["it died", "it hangs", "it never came"],
)
def test_how_long_a_silent_recorder_is_waited_for(
    pid: int, beat: bool, patience_s: float, tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    ring: Any = Ring(pid, clock.now_ns() if beat else 0)
    supervisor = Supervisor(tmp_path, ring, clock)
    clock.sleep(patience_s - 0.1)
    supervisor.check(clock.now_ns())
    assert started == []
    clock.sleep(0.2)
    supervisor.check(clock.now_ns())
    assert started == [2]


def test_a_recorder_that_beats_is_left_alone(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    ring: Any = Ring(HANGING)
    supervisor = Supervisor(tmp_path, ring, clock)
    for _ in range(100):
        ring.beat_ns = clock.now_ns()
        checked_each_second(supervisor, clock, 1)
    assert started == [] and not supervisor.has_died()


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_recorder_that_never_came_has_not_started(
    epoch: int, tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    supervisor = Supervisor(tmp_path, cast(Any, Ring(0, epoch=epoch)), clock)
    assert not supervisor.await_seal()
    assert supervisor.has_started() == (epoch > 0)


def test_the_dead_are_replaced_ever_more_rarely(
    tmp_path: Path, started: list[int], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them dies at once, before its first beat."""
    begin_s, times = clock.monotonic_s(), []

    def spawn(run: Path, epoch: int) -> None:
        times.append(clock.monotonic_s() - begin_s)
        lease_path(run, epoch).write_text(f"{NO_SUCH_PID} 1\n")
        date_lease(run, epoch, clock)

    monkeypatch.setattr(recorder_supervisor, "spawn_aside", spawn)
    supervisor = Supervisor(tmp_path, long_dead(clock), clock)
    assert supervisor.has_died()
    lines = []
    for _ in range(7200):
        clock.sleep(1.0)
        lines.append(supervisor.check(clock.now_ns()))
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(times)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(pauses[7:18]) == {60} and set(pauses[20:]) == {600}
    assert [line for line in lines if line] == [
        "phasewatt: the recorder has stopped; another one is started"
    ]
    assert current_epoch(tmp_path) == len(times) + 1


def test_a_recorder_that_did_not_sign_its_lease_is_waited_for(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    supervisor = Supervisor(tmp_path, long_dead(clock), clock)
    checked_each_second(supervisor, clock, 25)
    assert started == [2, 3, 4]


def test_one_line_when_recording_stops_and_one_when_it_goes_on(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    ring: Any = Ring(DEAD, clock.now_ns() - 60 * NS)
    supervisor = Supervisor(tmp_path, ring, clock)
    lines = []
    for second in range(60):
        clock.sleep(1.0)
        if second >= 5:
            ring.reader_pid, ring.beat_ns, ring.reader_epoch = HANGING, clock.now_ns(), 2
        ring.held = 20 <= second < 30
        lines.append(supervisor.check(clock.now_ns()))
    assert {second: line for second, line in enumerate(lines) if line} == {
        0: "phasewatt: the recorder has stopped; another one is started",
        5: f"phasewatt: {tmp_path.name} is recorded again",
        20: f"phasewatt: {recorder_supervisor._HELD}",
        30: f"phasewatt: {tmp_path.name} is recorded again",
    }


def test_a_recorder_on_its_way_is_waited_for_ten_seconds(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    lease(tmp_path, 2, clock)
    supervisor = Supervisor(tmp_path, long_dead(clock), clock)
    checked_each_second(supervisor, clock, 9)
    assert started == []
    checked_each_second(supervisor, clock, 2)
    assert started == [3]


@pytest.mark.parametrize("after", ["its leases", "its beat"])
def test_two_ranks_look_at_the_same_time(
    after: str,
    tmp_path: Path,
    started: list[int],
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One replaces the recorder while the other has looked and not yet claimed."""
    first = Supervisor(tmp_path, long_dead(clock), clock)
    ring = long_dead(clock)

    def meanwhile() -> None:
        first.check(clock.now_ns())

    if after == "its leases":
        armed = [True]  # the second's first listing only

        def listing(run: Path) -> int:
            epoch = current_epoch(run)
            if armed:
                armed.clear()
                meanwhile()
            return epoch

        monkeypatch.setattr(recorder_supervisor, "current_epoch", listing)
    else:
        ring.meanwhile = meanwhile
    Supervisor(tmp_path, ring, clock).check(clock.now_ns())
    assert started == [2]


def test_a_new_recorder_comes_while_a_rank_looks(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    """It was claimed, started, and took over this ring between two reads of its words."""
    ring = long_dead(clock)

    def arrive() -> None:
        if claim(tmp_path, 2):
            ring.reader_epoch, ring.reader_pid = 2, os.getpid()
            ring.beat_ns = clock.now_ns()

    ring.meanwhile = arrive
    Supervisor(tmp_path, ring, clock).check(clock.now_ns())
    assert started == []


def test_the_seal_is_waited_for_two_seconds(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    ring: Any = Ring(0)
    begin_s = clock.monotonic_s()
    assert not Supervisor(tmp_path, ring, clock).await_seal()
    assert clock.monotonic_s() - begin_s == pytest.approx(SEAL_WAIT_S, abs=0.01)
    clock.call_after(0.5, lambda: setattr(ring, "sealed", True))
    begin_s = clock.monotonic_s()
    assert Supervisor(tmp_path, ring, clock).await_seal()
    assert clock.monotonic_s() - begin_s == pytest.approx(0.5, abs=0.01)
    assert started == []


def test_a_recorder_that_is_dead_at_the_end_is_replaced(
    tmp_path: Path, started: list[int], clock: VirtualClock
) -> None:
    assert not Supervisor(tmp_path, long_dead(clock), clock).await_seal()
    assert started == [2]


def test_a_recorder_that_does_not_start_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock
) -> None:
    """Its interpreter hangs, say on a file server; the training begins."""
    stuck = subprocess.Popen(["sleep", "3600"])
    monkeypatch.setattr(recorder_supervisor, "spawn", lambda run, epoch: stuck)
    monkeypatch.setattr(recorder_supervisor, "START_WAIT_S", 0.1)
    starting = threading.Thread(target=Supervisor(tmp_path, Ring(), clock).start)  # type: ignore[arg-type]
    try:
        starting.start()
        starting.join(processes.HUNG_S)
        assert not starting.is_alive()
    finally:
        stuck.kill()
        starting.join()
        stuck.wait()
