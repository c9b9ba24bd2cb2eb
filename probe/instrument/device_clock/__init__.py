"""Device clocks: when the accelerator reached an edge that the host has long passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Reached = tuple[int, int, int]  # host time of the edge, device time on the host's clock, phase


class DeviceClock(Protocol):
    """Marks edges in a device's queue and reports later when the device reached them.

    Used from one thread. Nothing here waits for the device or raises.
    """

    dropped: int
    """Edges that found the pool empty, or whose time was lost."""

    def mark(self, time_ns: int, code: int) -> None:
        """Put the edge of host time ``time_ns`` into the device's queue."""

    def drain(self) -> Sequence[Reached]:
        """Edges that the device has reached since the last call, in order."""


__all__ = ["DeviceClock", "Reached"]
