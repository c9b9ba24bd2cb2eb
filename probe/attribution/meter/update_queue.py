"""Updates that wait for their spans."""

from __future__ import annotations

import numpy as np

from .updates import Updates

_MOST_WAITING = 20_000  # updates without spans (a phase of many minutes)


class UpdateQueue:
    """Dated updates in order of time; ``skipped`` of them waited too long and were dropped."""

    def __init__(self) -> None:
        self._waiting = Updates.of([])
        self._every = 1
        self._seen = 0
        self.skipped = 0

    @property
    def full(self) -> float:
        """How much of the room is taken: at 1 the oldest are dropped."""
        return len(self._waiting) / _MOST_WAITING

    def put(self, updates: Updates) -> None:
        """Add updates that follow those before."""
        if self._every > 1:  # what happened since the one before must not be lost with it
            place = np.arange(self._seen, self._seen + len(updates))
            self._seen += len(updates)
            updates = updates.take((place % self._every == 0) | updates.fresh)
        if len(updates):
            self._waiting = Updates.concat([self._waiting, updates])
        excess = len(self._waiting) - _MOST_WAITING
        if excess > 0:
            self._waiting = self._waiting.take(slice(excess, None))
            self._waiting.fresh[0] = True
            self.skipped += excess

    def thin(self) -> int:
        """Use half as many from now on. Returns one in how many is used."""
        self._every *= 2
        return self._every

    def until(self, end_s: float) -> None:
        """Drop those after ``end_s``."""
        self._waiting = self._waiting.take(self._waiting.time_s <= end_s)

    def decided_by(self, time_s: float) -> Updates:
        """Those that need nothing that happens at ``time_s`` or later."""
        number = int(np.searchsorted(self._waiting.horizon_s, time_s, "left"))
        return self._waiting.take(slice(0, number))

    def drop(self, number: int) -> None:
        """Drop so many of the oldest."""
        self._waiting = self._waiting.take(slice(number, None))
