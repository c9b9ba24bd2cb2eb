"""What recording costs, told from inside: edges × the measured price of an edge."""

from __future__ import annotations

import time
from typing import Any

# Of one edge with the hook, the wrapper or the context manager that leads to it:
# measured as µs per step over edges per step in benchmarks/phases.py.
EDGE_NS = 2_000


class Overhead:
    """Time since the begin, against what the edges since then cost."""

    def __init__(self) -> None:
        self._begin_ns = time.monotonic_ns()

    def begin(self) -> None:
        """The first edge is about to be written."""
        self._begin_ns = time.monotonic_ns()

    def told(self, edges: int, steps: int) -> dict[str, Any]:
        """For run.json; a share of None where no step was recorded."""
        elapsed = time.monotonic_ns() - self._begin_ns
        share = edges * EDGE_NS / elapsed if steps and elapsed > 0 else None
        return {
            "share_of_step": share,
            "method": f"edges × {EDGE_NS / 1e3:g} µs, the benchmark's price of an edge",
            "edges": edges,
        }
