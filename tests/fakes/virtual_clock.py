"""A clock that moves only when somebody waits for it, and what happens meanwhile.

Whoever waits (the recorder's loop) lets the clock run every task that falls due before the wait
is over, in order of time and in the same thread. So a minute takes as long as its work does.
"""

from __future__ import annotations

import heapq
import itertools
import select
import threading
from collections.abc import Callable, Iterator

from probe.recorder.sensors.sensor_loop import Join, SensorLoop

NS = 1_000_000_000
SHORTEST_NS = 1_000  # a wait takes some time however short, or a loop might never get on


class VirtualClock:
    """A :class:`probe.clock.Clock`; both of its clocks begin at given instants."""

    def __init__(self, begin_ns: int = 1000 * NS, wall_s: float = 1.8e9):
        self._now_ns = begin_ns
        self._wall_ahead_s = wall_s - begin_ns / NS
        self._tasks: list[tuple[int, int, Iterator[float]]] = []  # a heap: due, order, task
        self._sensors: set[Iterator[float]] = set()
        self._order = itertools.count()
        self._in_task = False

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_s(self) -> float:
        return self._now_ns / NS

    def wall_s(self) -> float:
        return self.monotonic_s() + self._wall_ahead_s

    def sleep(self, seconds: float) -> None:
        self._advance(seconds, lambda: False)

    def wait_event(self, event: threading.Event, seconds: float) -> bool:
        self._advance(seconds, event.is_set)
        return event.is_set()

    def wait_poll(self, poll: select.poll, seconds: float) -> list[tuple[int, int]]:
        """The descriptors are real; the time that is waited for them is not."""
        if not (ready := poll.poll(0)):
            self.sleep(seconds)
        return ready

    def run(self, task: Iterator[float]) -> None:
        """Go on with the task now and, each time, after as many seconds as it yields."""
        self._push(self._now_ns, task)

    def call_after(self, seconds: float, action: Callable[[], object]) -> None:
        """What ``action`` raises comes out of whoever waits then."""

        def task() -> Iterator[float]:
            yield seconds
            action()

        self.run(task())

    def run_sensor(self, loop: SensorLoop) -> Join:
        """What starts a sensor's loop in virtual time; see ``NodeSensors``."""
        steps = loop.steps()
        self._sensors.add(steps)
        self.run(steps)

        def join(_seconds: float) -> bool:
            for _ in steps:  # it was told to stop: it reads once more and closes
                pass
            return True

        return join

    def drop_sensors(self) -> None:
        """The process that read them is dead."""
        self._tasks = [entry for entry in self._tasks if entry[2] not in self._sensors]
        heapq.heapify(self._tasks)

    def _push(self, due_ns: int, task: Iterator[float]) -> None:
        heapq.heappush(self._tasks, (due_ns, next(self._order), task))

    def _advance(self, seconds: float, enough: Callable[[], bool]) -> None:
        until_ns = self._now_ns + max(SHORTEST_NS, round(seconds * NS))
        if not self._in_task:  # else a task waits by itself, as a thread would
            while not enough() and self._tasks and self._tasks[0][0] <= until_ns:
                due_ns, _, task = heapq.heappop(self._tasks)
                self._now_ns = max(self._now_ns, due_ns)
                self._step(task)
        if not enough():
            self._now_ns = max(self._now_ns, until_ns)

    def _step(self, task: Iterator[float]) -> None:
        self._in_task = True
        try:
            wait_s = next(task, None)
        finally:
            self._in_task = False
        if wait_s is not None:
            self._push(self._now_ns + max(0, round(wait_s * NS)), task)
