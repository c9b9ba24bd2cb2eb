"""When a sensor reads that is free to choose: at instants which all of them choose.

A waking costs more than most reads do, and less while the processor is awake: the counters'
coasting reads lie on the same grid (:mod:`_counter_lock`), and have gone before.
"""

from __future__ import annotations

from ..units import NS_PER_MS

GRID_NS = 50 * NS_PER_MS
AFTER_NS = NS_PER_MS


def on_grid(time_ns: int) -> int:
    """The first of these instants from ``time_ns`` on."""
    return time_ns + (AFTER_NS - time_ns) % GRID_NS
