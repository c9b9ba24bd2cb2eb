"""The device clock over timing events; the driver beneath it may be CUDA or simulated.

An event is put into the device's queue at each edge and read when it is complete, a
step or more later. Events only tell differences, so every now and then an *anchor*
ties the device to the host: an event on an idle stream, polled until it is complete,
with the host's time read before and after.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from . import Reached

POOL = 8192  # edges in flight; a step has about twelve
POLL_NS = 100_000  # an anchor's event that takes longer found the device busy
BRACKET_NS = 50_000  # a wider anchor would say too little
ANCHOR_EVERY_NS = 5_000_000_000  # twice per 10 s: the difference is a float32 of milliseconds
RETRY_NS = 100_000_000
_TRIES = 3


class Driver(Protocol):
    """What the clock asks of a device. Events are opaque."""

    def capturing(self) -> bool:
        """True while the user captures a graph: no event may enter it."""

    def event(self) -> Any:
        """A new timing event."""

    def record(self, event: Any) -> None:
        """Put the event behind the work that the calling thread has queued."""

    def record_idle(self, event: Any) -> None:
        """Put the event on a stream that is used for nothing else."""

    def complete(self, event: Any) -> bool:
        """Whether the device has reached the event; never waits."""

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """Device time between two complete events, in float32 milliseconds."""


@dataclass(frozen=True, slots=True)
class AnchorPoint:
    """An event whose host time is known to lie within ±``bracket_ns`` / 2 of ``host_ns``."""

    event: Any
    host_ns: int
    bracket_ns: int


class EventClock:
    """A :class:`~probe.instrument.device_clock.DeviceClock` for one device and one host thread."""

    def __init__(self, driver: Driver, *, now: Callable[[], int] = time.monotonic_ns):
        self.dropped = 0
        self.anchor: AnchorPoint | None = None
        self._driver, self._now = driver, now
        self._pool: list[Any] = []
        self._made = 0
        self._pending: deque[tuple[int, int, Any, AnchorPoint]] = deque()
        self._next_anchor = 0
        self._tie()

    def mark(self, time_ns: int, code: int) -> None:
        """Queue an event for this edge; without an anchor or an event it is dropped."""
        anchor = self.anchor
        if anchor is None or self._driver.capturing():
            self.dropped += 1
            return
        if self._pool:
            event = self._pool.pop()
        elif self._made < POOL:
            self._made += 1
            event = self._driver.event()
        else:
            self.dropped += 1
            return
        self._driver.record(event)
        self._pending.append((time_ns, code, event, anchor))

    def drain(self) -> list[Reached]:
        """The edges that are complete, oldest first; renews the anchor when it is due."""
        driver, pending = self._driver, self._pending
        reached: list[Reached] = []
        if driver.capturing():
            return reached
        while pending and driver.complete(pending[0][2]):
            time_ns, code, event, anchor = pending.popleft()
            try:
                passed = driver.elapsed_ms(anchor.event, event)
            except RuntimeError:  # the user has moved on to another device
                self.dropped += 1
            else:
                reached.append((time_ns, anchor.host_ns + round(passed * 1e6), code))
            self._pool.append(event)
        if self._now() >= self._next_anchor:
            self._tie()
        return reached

    def _tie(self) -> None:
        """Renew the anchor; keeps the old one if the device is too busy to answer."""
        best: AnchorPoint | None = None
        if not self._driver.capturing():
            for _ in range(_TRIES):
                point = self._try()
                if point is not None and (best is None or point.bracket_ns < best.bracket_ns):
                    best = point
        if best is not None:
            # The event of the anchor before is not reused: edges in flight refer to it.
            self.anchor = best
        self._next_anchor = self._now() + (ANCHOR_EVERY_NS if best is not None else RETRY_NS)

    def _try(self) -> AnchorPoint | None:
        event = self._driver.event()
        before = self._now()
        self._driver.record_idle(event)
        while not self._driver.complete(event):
            if self._now() - before > POLL_NS:
                return None
        after = self._now()
        if after - before > BRACKET_NS:
            return None
        return AnchorPoint(event, (before + after) // 2, after - before)
