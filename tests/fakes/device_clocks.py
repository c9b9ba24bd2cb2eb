"""Device clocks for tests: the host's own, and a simulated asynchronous device.

The simulated device has a queue, its own drifting clock and graph capture, and runs under the same
clock code as CUDA. Host time is simulated too and only moves when told, so every result is exact.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass

from probe.instrument.device_clock import Reached

_FLOAT32 = struct.Struct("<f")
LIMIT = 8192  # edges that a HostClock keeps


class HostClock:
    """A :class:`~probe.instrument.device_clock.DeviceClock` without a device."""

    def __init__(self) -> None:
        self.dropped = 0
        self._reached: list[Reached] = []

    def mark(self, time_ns: int, code: int) -> None:
        """The edge is reached now."""
        if len(self._reached) >= LIMIT:
            self.dropped += 1
        else:
            self._reached.append((time_ns, time_ns, code))

    def drain(self) -> list[Reached]:
        """All edges since the last call."""
        reached, self._reached = self._reached, []
        return reached


@dataclass(slots=True)
class SimulatedEvent:
    """Recorded at ``at_ns`` of true (host) time; None: not recorded."""

    at_ns: float | None = None


class SimulatedTime:
    """Host time that several devices and threads share."""

    def __init__(self, start_ns: int = 1_000_000_000):
        self._now = start_ns
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """A read costs 100 ns, as it does in truth."""
        return self.advance(100)

    def advance(self, ns: int) -> int:
        """Let time pass."""
        with self._lock:
            self._now += ns
            return self._now

    @property
    def peek_ns(self) -> int:
        """The time, without spending any."""
        return self._now


class SimulatedDevice:
    """One device; a :class:`~probe.instrument.device_clock.events.Driver` for its clock.

    Args:
        time: the host's time.
        depth: launches in flight before the host has to wait.
        launch_ns: host time that a launch takes.
        drift: relative error of the device's clock (1e-5: 10 µs per second).
        offset_ns: what the device's clock shows at host time 0.
        idle_latency_ns: until an event on an idle stream is complete.
    """

    def __init__(
        self,
        time: SimulatedTime,
        *,
        depth: int = 1024,
        launch_ns: int = 5_000,
        drift: float = 0.0,
        offset_ns: float = 0.0,
        idle_latency_ns: int = 2_000,
    ):
        self.events_made = 0
        self._time, self._depth, self._launch_ns = time, depth, launch_ns
        self._drift, self._offset = drift, offset_ns
        self._idle_latency_ns = idle_latency_ns
        self._ends: list[float] = []
        self._captured = threading.local()
        self._lock = threading.Lock()

    def launch(self, work_ns: int) -> None:
        """Queue a kernel; waits, as a host does, while the queue is full."""
        if self.capturing():
            return
        now = self._time.advance(self._launch_ns)
        with self._lock:
            self._ends = [end for end in self._ends if end > now]
            if len(self._ends) >= self._depth:
                now = self._time.advance(int(self._ends[0] - now) + 1)
            begin = max(self._ends[-1] if self._ends else 0.0, float(now))
            self._ends.append(begin + work_ns)

    def synchronize(self) -> None:
        """Let the host wait until the queue is empty."""
        with self._lock:
            last = self._ends[-1] if self._ends else 0.0
        self._time.advance(max(0, int(last) + 1 - self._time.peek_ns))

    def capture(self, on: bool) -> None:
        """Begin or end the capture of a graph in this thread."""
        self._captured.on = on

    def capturing(self) -> bool:
        return bool(getattr(self._captured, "on", False))

    def event(self) -> SimulatedEvent:
        self.events_made += 1
        return SimulatedEvent()

    def record(self, event: SimulatedEvent) -> None:
        if self.capturing():
            raise AssertionError("an event of ours would enter the user's graph")
        now = float(self._time.advance(1_000))
        with self._lock:
            event.at_ns = max(self._ends[-1], now) if self._ends else now

    def record_idle(self, event: SimulatedEvent) -> None:
        if self.capturing():
            raise AssertionError("an anchor during capture")
        event.at_ns = float(self._time.advance(1_000) + self._idle_latency_ns)

    def complete(self, event: SimulatedEvent) -> bool:
        if event.at_ns is None:
            raise RuntimeError("this event was never recorded")
        return self._time.advance(300) >= event.at_ns

    def elapsed_ms(self, first: SimulatedEvent, second: SimulatedEvent) -> float:
        if not self.complete(first) or not self.complete(second):
            raise AssertionError("an event was read before it was complete")
        exact = (self._shown(second) - self._shown(first)) / 1e6
        return float(_FLOAT32.unpack(_FLOAT32.pack(exact))[0])

    def _shown(self, event: SimulatedEvent) -> float:
        assert event.at_ns is not None
        return self._offset + event.at_ns * (1 + self._drift)
