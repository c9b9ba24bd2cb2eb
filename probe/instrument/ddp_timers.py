"""What DistributedDataParallel says about reducing gradients, beside what its wrapper sees.

How long collectives run beside a backward only the C++ reducer knows, which times the steps that it
samples. On a GPU the timers synchronise the device, so they are left alone there.

With two micro-batches per step, the one that reduces also adds to the gradients that the other one
made. What that takes is timed here on memory of our own, a few times at the start.
"""

from __future__ import annotations

import bisect
import itertools
import sys
import time
import weakref
from typing import Any

from ..ring.layout import REDUCTIONS_WARM_UP, CommCode, Record
from ..ring.writer import RingWriter

RATE = 10  # one step in so many is timed; torch's default is 100
ADDINGS, BETWEEN = 12, 3  # timed, and reductions from one to the next
SPARED = 20_000  # asking DDP takes 0.1 ms: so many times as long nothing is asked,
SPARED_FIRST, FIRST = 4000, 20  # less at first, so that a short run has some answers
WARMING = 2 * REDUCTIONS_WARM_UP  # asked at most, as often as possible, until DDP is warm
ADDED_BYTES = 128 << 20  # at most, each time; for larger models scaled up


class DdpTimers:
    """Records the reducer's timers of the first DDP module that is seen."""

    def __init__(self, ring: RingWriter):
        self._ring = ring
        self._module: weakref.ref[Any] | None = None
        self._due_ns = 0
        self._seen = -1
        self._asked = 0
        self._addings = self._next_adding = 0

    def follow(self, module: Any) -> None:
        """Time its collectives from now on, if it is on the CPU."""
        if any(parameter.device.type != "cpu" for parameter in module.parameters()):
            return
        module._set_ddp_runtime_logging_sample_rate(RATE)
        self._module = weakref.ref(module)

    def poll(self, micros: int) -> None:
        """Record what was timed since the last call; ``micros`` forwards belong to a reduction."""
        module = self._module() if self._module is not None else None
        if module is None or (now_ns := time.monotonic_ns()) < self._due_ns:
            return
        began_ns = time.thread_time_ns()  # another process may run in between
        timers = module._get_ddp_logging_data()
        took_ns = time.thread_time_ns() - began_ns
        self._asked += 1
        step = int(timers.get("iteration", -1))
        if step <= REDUCTIONS_WARM_UP and self._asked <= WARMING:
            return  # asking is slow while it is cold, too: that must not defer the next one
        self._due_ns = now_ns + took_ns * (SPARED if self._asked > FIRST else SPARED_FIRST)
        busy = int(timers.get("backward_comm_time", 0))
        if step == self._seen or step <= REDUCTIONS_WARM_UP or busy <= 0:
            return
        self._seen = step
        overlap = int(timers.get("backward_compute_comm_overlap_time", 0))
        self._write(CommCode.BUSY, busy)
        self._write(CommCode.EXPOSED, max(0, busy - overlap))
        if micros == 2 and self._addings < ADDINGS and step >= self._next_adding:
            self._addings += 1
            self._next_adding = step + BETWEEN
            try:
                self._write(CommCode.ADDING, adding_ns(module))
            except Exception:  # no memory for it: the difference stays an upper bound
                self._addings = ADDINGS

    def _write(self, code: CommCode, ns: int) -> None:
        self._ring.write(int(Record.COMM), int(code), ns)


def adding_ns(module: Any) -> int:
    """How much longer making and adding gradients takes than making and keeping them, in ns."""
    torch = sys.modules["torch"]
    trained = [weight.detach() for weight in module.parameters() if weight.requires_grad]
    sizes = [int(weight.numel()) * int(weight.element_size()) for weight in trained]
    number = max(1, bisect.bisect_right(list(itertools.accumulate(sizes)), ADDED_BYTES))
    with torch.no_grad():
        began = time.perf_counter_ns()
        kept = [torch.ones_like(weight) for weight in trained[:number]]
        between = time.perf_counter_ns()
        for gradient in kept:
            gradient.add_(torch.ones_like(gradient))
        ended = time.perf_counter_ns()
    made, added = between - began, ended - between
    return round(max(0, added - made) * sum(sizes) / max(1, sum(sizes[:number])))
