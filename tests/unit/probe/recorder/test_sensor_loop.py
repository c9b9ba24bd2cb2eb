"""A sensor's loop: it is read when it asks to be, and once more at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

import pytest

from probe.clock import MonotonicClock
from probe.errors import SensorUnavailable
from probe.model import Gap, Kind, Provenance, Reading, Sample, Source
from probe.recorder.sensors import sensor_loop
from probe.recorder.sensors.sensor_loop import SensorLoop, run_in_thread
from probe.sensors import SensorContext
from tests.fakes import processes
from tests.fakes.virtual_clock import VirtualClock

SOURCE = Source(
    id="slow",
    device="host",
    quantity="power",
    unit="W",
    kind=Kind.GAUGE,
    provenance=Provenance.MODELLED,
    method="test",
    resolution_s=2.0,
)
NS = 10**9


class Slow:
    """Wants to be read 0.1 s after it was opened, then every 1.4 s."""

    name: ClassVar[str] = "slow"
    every_ns: ClassVar[int] = 14 * NS // 10

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[object] = []
        self.warnings: list[str] = []
        self._clock = context.clock
        self.due_ns = 0

    def open(self) -> Sequence[Source]:
        self.due_ns = self._clock.now_ns() + NS // 10
        return [SOURCE]

    def read(self) -> Iterable[Reading]:
        now = self._clock.now_ns()
        late, self.due_ns = now - self.due_ns, now + self.every_ns
        return [Sample("slow", now, late / NS)]

    def next_read_ns(self) -> int:
        return self.due_ns

    def close(self) -> None:
        self.due_ns = 0


class Failing(Slow):
    """Cannot be read."""

    def read(self) -> Iterable[Reading]:
        raise ValueError("no such meter")


class Missing(Slow):
    """Is not there."""

    def open(self) -> Sequence[Source]:
        raise SensorUnavailable("no such device", remedy="buy one")


class Waking(Slow):
    """Its driver is not ready the first two times; another one is used each time."""

    tries: ClassVar[list[int]] = []

    def open(self) -> Sequence[Source]:
        self.tries.append(self._clock.now_ns())
        if len(self.tries) < 3:
            raise OSError("the driver is not ready")
        return super().open()


class Broken(Slow):
    """Cannot be opened, ever."""

    def open(self) -> Sequence[Source]:
        raise OSError("the driver is not ready")


def virtual(kind: type) -> tuple[VirtualClock, SensorLoop]:
    clock = VirtualClock(begin_ns=0)
    return clock, SensorLoop(kind, SensorContext(clock=clock, pids=(), requests=()))


def test_a_sensor_is_read_when_it_is_due() -> None:
    clock, loop = virtual(Slow)
    join = clock.run_sensor(loop)
    clock.sleep(5.0)
    assert loop.opened.is_set() and loop.sources == (SOURCE,)
    assert [reading.time_ns / NS for reading in loop.take()] == [0.1, 1.5, 2.9, 4.3]
    loop.stop()
    loop.stop()  # twice is once
    assert join(1.0)
    (last,) = loop.take()
    assert last.time_ns == 5 * NS and last.value == pytest.approx(-0.7)  # before it was due


def test_a_sensor_that_fails_is_tried_again_after_a_second() -> None:
    clock, loop = virtual(Failing)
    join = clock.run_sensor(loop)
    clock.sleep(2.5)
    loop.stop()
    assert join(1.0)
    gaps = loop.take()
    assert [gap.begin_ns / NS for gap in gaps if isinstance(gap, Gap)] == [0.1, 1.1, 2.1, 2.5]
    assert loop.warnings == ["sensor slow: ValueError: no such meter"] * 4


def test_a_sensor_that_is_not_there_says_why() -> None:
    clock, loop = virtual(Missing)
    clock.run_sensor(loop)
    clock.sleep(10.0)
    assert loop.opened.is_set() and not loop.take()
    assert [(a.what, a.reason, a.remedy) for a in loop.absent] == [
        ("slow", "no such device", "buy one")
    ]


def test_a_sensor_that_fails_while_it_is_opened_is_opened_again() -> None:
    Waking.tries.clear()
    clock, loop = virtual(Waking)
    clock.run(loop.steps())
    clock.sleep(0.5)
    assert loop.opened.is_set() and not loop.sources
    assert [absence.reason for absence in loop.absent] == ["OSError: the driver is not ready"]
    clock.sleep(12)
    assert [round(at / NS) for at in Waking.tries] == [0, 1, 11]
    assert (loop.sources, loop.absent) == ((SOURCE,), [])
    assert loop.take()


def test_a_sensor_that_cannot_be_opened_is_given_up_after_three_more_times() -> None:
    clock, loop = virtual(Broken)
    clock.run(loop.steps())
    clock.sleep(600)
    assert [absence.reason for absence in loop.absent] == ["OSError: the driver is not ready"]
    assert not loop.sources and not loop.take()


@pytest.mark.parametrize(("kind", "readings"), [(Slow, 1), (Failing, 1)])
def test_a_thread_ends_amid_its_wait(
    kind: type, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow waits between reads, Failing between tries: here for ever."""
    for name in ("_LONGEST_WAIT_S", "_RETRY_S"):
        monkeypatch.setattr(sensor_loop, name, 3600.0)
    monkeypatch.setattr(Slow, "every_ns", 3600 * NS)
    loop = SensorLoop(kind, SensorContext(clock=MonotonicClock(), pids=(), requests=()))
    join = run_in_thread(loop)
    taken: list[Reading] = []
    while len(taken) < readings:
        time.sleep(0.01)
        taken += loop.take()
    loop.stop()
    assert join(processes.HUNG_S)
    assert len(loop.take()) == 1
