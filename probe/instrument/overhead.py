"""What recording costs, estimated from inside: records × the measured price of a record."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .state_machine import COMPILED

# Of one record with the hook, the wrapper or the context manager that leads to it, met cold, as
# in steps of ten milliseconds and more: what benchmarks/cost/hook_cpu_cold.py prints, as it
# is and with --plain, where a machine has loud neighbours.
# A step of 2 ms leaves our code in the caches and pays less (benchmarks/cost/hook_cpu_warm.py).
RECORD_NS = 9_000 if COMPILED else 15_000


@dataclass(frozen=True, slots=True)
class OverheadEstimate:
    """Share of a step (0 to 1), None where fewer than two steps were recorded, and how found."""

    share_of_step: float | None
    method: str
    records: int


class Overhead:
    """Records since the first step closed, against the time since then."""

    def __init__(self) -> None:
        self._begin_ns = time.monotonic_ns()
        self._records = 0

    def begin(self, records: int) -> None:
        """Count from here: what lies before is start-up, not training."""
        self._begin_ns, self._records = time.monotonic_ns(), records

    def summary(self, records: int, steps: int) -> OverheadEstimate:
        """The estimate so far, from the counts of all records and steps."""
        elapsed = time.monotonic_ns() - self._begin_ns
        since = records - self._records
        share = since * RECORD_NS / elapsed if steps > 1 and elapsed > 0 else None
        return OverheadEstimate(
            share_of_step=share,
            method=f"{RECORD_NS / 1e3:g} µs per record, a cold-cache figure",
            records=records,
        )
