"""One time base: CLOCK_MONOTONIC in nanoseconds, anchored once to the wall clock.

``time.monotonic_ns`` is the same clock in every process of one boot, so edges
written by the training process and samples taken by the recorder need no
conversion. Durations never touch the wall clock: an NTP step must not become power.
"""

from __future__ import annotations

import select
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """All that recorder, sensors and session ask of time; tests inject a virtual one."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""

    def monotonic_s(self) -> float:
        """The same clock in seconds, for deadlines."""

    def wall_s(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Block for about ``seconds``; never raises for a negative value."""

    def wait_event(self, event: threading.Event, seconds: float) -> bool:
        """Block until the event is set, ``seconds`` at most; whether it is set."""

    def wait_poll(self, poll: select.poll, seconds: float) -> list[tuple[int, int]]:
        """Block until a descriptor is ready, ``seconds`` at most; (descriptor, events) of each."""


class MonotonicClock:
    """The machine's clocks. Reading one is the C function itself: training steps read it."""

    now_ns = staticmethod(time.monotonic_ns)
    monotonic_s = staticmethod(time.monotonic)
    wall_s = staticmethod(time.time)

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def wait_event(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

    def wait_poll(self, poll: select.poll, seconds: float) -> list[tuple[int, int]]:
        return poll.poll(max(0.0, seconds) * 1000)


MACHINE_CLOCK = MonotonicClock()  # holds no state: one for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One instant on both clocks."""

    monotonic_ns: int
    wall_ns: int

    @classmethod
    def now(cls) -> Anchor:
        """Read both clocks, the wall clock bracketed by two monotonic reads."""
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        return cls(monotonic_ns=(before + after) // 2, wall_ns=wall)

    def wall_of(self, monotonic_ns: int) -> datetime:
        """The wall-clock time (UTC) of a monotonic instant."""
        seconds = (self.wall_ns + monotonic_ns - self.monotonic_ns) / 1e9
        return datetime.fromtimestamp(seconds, tz=UTC)
