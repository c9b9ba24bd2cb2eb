"""DistributedDataParallel's own timers, asked for now and then.

Its C++ reducer times the steps that it samples: when the first collective began, when the last
ended, when the last gradient was computed. On a GPU the timers synchronise the device, so they are
left alone there.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..ring.layout import CommCode, Record

if TYPE_CHECKING:
    from ..ring.writer import RingWriter

RATE = 10  # one step in so many is timed; torch's default is 100


class Reducing:
    """Of the first DDP module that is seen."""

    def __init__(self, ring: RingWriter):
        self._ring = ring
        self._module: weakref.ref[Any] | None = None
        self._seen = -1

    def saw(self, module: Any) -> None:
        """A DDP module trains."""
        if any(parameter.device.type != "cpu" for parameter in module.parameters()):
            return
        module._set_ddp_runtime_logging_sample_rate(RATE)
        self._module = weakref.ref(module)

    def poll(self) -> None:
        """Record what was timed since the last call."""
        module = self._module() if self._module is not None else None
        if module is None:
            return
        told = module._get_ddp_logging_data()
        step = int(told.get("iteration", -1))
        busy = int(told.get("backward_comm_time", 0))
        if step == self._seen or busy <= 0:
            return
        self._seen = step
        overlap = int(told.get("backward_compute_comm_overlap_time", 0))
        for code, ns in ((CommCode.BUSY, busy), (CommCode.EXPOSED, max(0, busy - overlap))):
            self._ring.write(int(Record.COMM), int(code), ns)
