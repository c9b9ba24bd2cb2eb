"""The host as its own device: an edge is reached when it is marked."""

from __future__ import annotations

from . import Reached

LIMIT = 8192


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
