"""The thread of a sensor: it is read when it asks to be, and once more at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from probe.clock import MonotonicClock
from probe.model import Kind, Provenance, Reading, Sample, Source
from probe.recorder.sensor_thread import SensorThread
from probe.sensors import SensorContext

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


class Slow:
    """Wants to be read a little after it was opened, then every 1.4 s."""

    name: ClassVar[str] = "slow"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[object] = []
        self.warnings: list[str] = []
        self._clock = context.clock
        self.due_ns = 0

    def open(self) -> Sequence[Source]:
        self.due_ns = self._clock.now_ns() + 100_000_000
        return [SOURCE]

    def read(self) -> Iterable[Reading]:
        now = self._clock.now_ns()
        late, self.due_ns = now - self.due_ns, now + 1_400_000_000
        return [Sample("slow", now, late / 1e9)]

    def next_read_ns(self) -> int:
        return self.due_ns

    def close(self) -> None:
        self.due_ns = 0


class Failing(Slow):
    """Cannot be read."""

    def read(self) -> Iterable[Reading]:
        raise ValueError("no such meter")


def context() -> SensorContext:
    return SensorContext(clock=MonotonicClock(), pids=(), requests=())


def test_a_sensor_is_read_when_it_is_due() -> None:
    thread = SensorThread(Slow, context())
    readings: list[Reading] = []
    while len(readings) < 2:
        time.sleep(0.02)
        readings += thread.take()
    thread.stop()
    thread.stop()  # twice is once
    assert thread.join(10)
    *due, last = *readings, *thread.take()
    assert [one.value >= 0 for one in due] == [True, True]
    assert last.value < 0  # at the end, before it was due


def test_a_sensor_that_fails_is_tried_again_and_ends_when_told() -> None:
    thread = SensorThread(Failing, context())
    while not thread.warnings:
        time.sleep(0.02)
    began = time.monotonic()
    thread.stop()
    assert thread.join(10) and time.monotonic() - began < 0.9  # it waits a second between tries
    assert [gap.reason for gap in thread.take()] == ["ValueError: no such meter"] * 2
    assert thread.warnings == ["sensor slow: ValueError: no such meter"] * 2
