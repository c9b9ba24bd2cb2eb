"""Allocator statistics of the current CUDA device; read only, peaks are never reset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..ring.layout import Record
from ..ring.writer import RingWriter

_MEMORY = int(Record.MEMORY)
CHEAP_NS = 3_000  # a read dearer than this is taken at step boundaries only
_PATHS = (
    ("allocated", ("allocated_bytes", "all", "current")),
    ("reserved", ("reserved_bytes", "all", "current")),
    ("peak", ("allocated_bytes", "all", "peak")),
)


Counters = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Of the allocator: what is counted, in which pool (``all``), now or at most."""


class CudaMemory:
    """MEMORY records at step boundaries, and allocated bytes at edges if that is cheap."""

    def __init__(self, statistics: Callable[[], Counters], ring: RingWriter):
        """``statistics()`` gives the allocator's nested counters of one device."""
        self._statistics = statistics
        self._ring = ring
        self._codes = [ring.code(name) for name, _ in _PATHS]
        self.cheap = self._cost_ns() <= CHEAP_NS

    @classmethod
    def of_torch(cls, torch: Any, ring: RingWriter) -> CudaMemory | None:
        """None where this version of torch keeps its statistics elsewhere."""
        read = getattr(torch._C, "_cuda_memoryStats", None)
        if read is None:
            return None
        device = torch.cuda.current_device()
        return cls(lambda: read(device), ring)

    def allocated(self) -> int:
        """Bytes allocated now."""
        return int(self._statistics()["allocated_bytes"]["all"]["current"])

    def step(self) -> None:
        """Write the three records."""
        now, statistics = time.monotonic_ns(), self._statistics()
        for code, (_, path) in zip(self._codes, _PATHS, strict=True):
            self._ring.write_at(now, _MEMORY, code, int(statistics[path[0]][path[1]][path[2]]))

    def _cost_ns(self) -> int:
        costs = []
        for _ in range(5):
            begin = time.perf_counter_ns()
            self.allocated()
            costs.append(time.perf_counter_ns() - begin)
        return sorted(costs)[2]
