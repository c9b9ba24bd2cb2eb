"""CUDA events as a device clock. Never initialises CUDA, never synchronises."""

from __future__ import annotations

from typing import Any

from .events import EventClock


class CudaDriver:
    """Events on the current device of the thread that made this."""

    def __init__(self, cuda: Any):
        self._cuda = cuda
        self._make = cuda.Event
        self._idle = cuda.Stream()
        self._capturing = cuda.is_current_stream_capturing

    def capturing(self) -> bool:
        return bool(self._capturing())

    def event(self) -> Any:
        return self._make(enable_timing=True)

    def record(self, event: Any) -> None:
        event.record()

    def record_idle(self, event: Any) -> None:
        event.record(self._idle)

    def complete(self, event: Any) -> bool:
        return bool(event.query())

    def elapsed_ms(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second))


class CudaClock(EventClock):
    """The device clock of the current CUDA device."""

    @classmethod
    def of(cls, torch: Any) -> CudaClock | None:
        """None as long as the training has not initialised CUDA itself, or captures."""
        cuda = torch.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return None
        return cls(CudaDriver(cuda))
