"""One time base: CLOCK_MONOTONIC in nanoseconds, anchored once to the wall clock.

``time.monotonic_ns`` is the same clock in every process of one boot, so edges
written by the training process and samples taken by the recorder need no
conversion. Durations never touch the wall clock: an NTP step must not become power.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the recorder and the sensors ask of time; tests inject a fake."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for about ``seconds``; never raises for a negative value."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


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
