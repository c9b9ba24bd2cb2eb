"""Work that may have a share of a core and no more, however dear each piece of it is."""

from __future__ import annotations

import math
import time

from ..clock import Clock


class CpuShare:
    """A context in which such work is done; :meth:`due` says when to do more of it."""

    def __init__(self, clock: Clock, share: float, *, free_s: float = 0.0):
        """Due at once.

        Args:
            share: of one core, over the time from one piece to the next.
            free_s: CPU time of the first pieces, which may follow each other.
        """
        self._clock, self._share, self._free_s = clock, share, free_s
        self._due_s, self._began_s = -math.inf, 0.0

    def due(self) -> bool:
        """Whether the work has had less than its share by now."""
        return self._clock.monotonic_s() >= self._due_s

    def __enter__(self) -> None:
        """Begin a piece, due or not."""
        self._began_s = time.thread_time()

    def __exit__(self, *_: object) -> None:
        """End it; the next is due when this one is no more than the share."""
        spent_s = time.thread_time() - self._began_s
        self._free_s -= spent_s
        if self._free_s < 0:
            now_s = self._clock.monotonic_s()
            self._due_s = max(self._due_s, now_s) + spent_s / self._share
