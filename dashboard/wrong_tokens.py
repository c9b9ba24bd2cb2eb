"""How often wrong tokens were given lately: guessing is slowed down."""

from __future__ import annotations

import math
import threading
import time
from collections import deque

MOST = 10  # answered like any other
WINDOW_S = 60.0


class WrongTokens:
    """Counts the wrong tokens that a server was given. Safe to use from many threads.

    One count for all clients: behind a proxy all have one address, and an attacker has many.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times_s: deque[float] = deque(maxlen=MOST)

    def add(self) -> int:
        """Count one. Returns 0, or the seconds to wait if there were too many."""
        now_s = time.monotonic()
        with self._lock:
            if len(self._times_s) == MOST and now_s - self._times_s[0] < WINDOW_S:
                return max(1, math.ceil(self._times_s[0] + WINDOW_S - now_s))
            self._times_s.append(now_s)
        return 0
