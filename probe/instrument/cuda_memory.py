"""Allocator statistics of the current CUDA device; read only, peaks are never reset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..ring.layout import AllocatorFigure, Record
from ..ring.writer import RingWriter

_MEMORY = int(Record.MEMORY)
_MOST_TIME = 0.001  # share of a training's time that reading at edges may take
_BURST = 64  # edges that are read one after the other, some steps; then a pause

Counters = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Of the allocator: what is counted, in which pool (``all``), now or at most."""


class CudaMemory:
    """MEMORY records at step boundaries, and allocated bytes at the edges of some steps.

    A read takes some microseconds, so edges are read in bursts, with pauses that keep the share of
    time below a thousandth.
    """

    def __init__(
        self,
        statistics: Callable[[], Counters],
        ring: RingWriter,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ):
        """``statistics()`` gives the allocator's nested counters of one device."""
        self._statistics, self._ring, self._now_ns = statistics, ring, now_ns
        self._code = {figure: ring.code(str(figure)) for figure in AllocatorFigure}
        self._pause_ns = round(_BURST * self._cost_ns() / _MOST_TIME)
        self._resume_ns = 0
        self._left = 0  # reads of this burst
        self._peak = self._reserved = -1

    @classmethod
    def of_torch(cls, torch: Any, ring: RingWriter) -> CudaMemory | None:
        """None where this version of torch keeps its statistics elsewhere."""
        read = getattr(torch._C, "_cuda_memoryStats", None)
        if read is None:
            return None
        device = torch.cuda.current_device()
        return cls(lambda: read(device), ring)

    def allocated(self) -> int:
        """Bytes allocated now, for an edge; −1 in a pause.

        Writes first what the phase that ends here is known by: that the running peak has risen in
        it, and the bytes that are reserved, if they are others than at the edge before.
        """
        if not self._left:
            now_ns = self._now_ns()
            if now_ns < self._resume_ns:
                return -1
            self._left = _BURST
            self._resume_ns = now_ns + self._pause_ns
            self._reserved = -1
            statistics = self._statistics()
            # Whichever phase of the pause it was that raised the peak.
            self._peak = _now(statistics, "allocated_bytes", "peak")
            self._write(AllocatorFigure.PEAK, self._peak)
        else:
            statistics = self._statistics()
        self._left -= 1
        peak = _now(statistics, "allocated_bytes", "peak")
        if peak != self._peak:
            if peak > self._peak:
                self._write(AllocatorFigure.PEAK_IN_PHASE, peak)
            self._peak = peak  # the user may have reset it
        reserved = _now(statistics, "reserved_bytes", "current")
        if reserved != self._reserved:
            self._reserved = reserved
            self._write(AllocatorFigure.RESERVED_IN_PHASE, reserved)
        return _now(statistics, "allocated_bytes", "current")

    def step(self) -> None:
        """Write the three records of a step's end."""
        statistics = self._statistics()
        self._write(AllocatorFigure.ALLOCATED, _now(statistics, "allocated_bytes", "current"))
        self._write(AllocatorFigure.RESERVED, _now(statistics, "reserved_bytes", "current"))
        self._write(AllocatorFigure.PEAK, _now(statistics, "allocated_bytes", "peak"))

    def _write(self, figure: AllocatorFigure, amount: int) -> None:
        self._ring.write_at(self._now_ns(), _MEMORY, self._code[figure], amount)

    def _cost_ns(self) -> int:
        costs = []
        for _ in range(5):
            begin = self._now_ns()
            self._statistics()
            costs.append(self._now_ns() - begin)
        return sorted(costs)[2]


def _now(statistics: Counters, what: str, which: str) -> int:
    return int(statistics[what]["all"][which])
