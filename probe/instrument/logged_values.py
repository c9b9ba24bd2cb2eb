"""``run.log``: numbers of the training, read without a device sync."""

from __future__ import annotations

import numbers
import sys
from collections import deque
from collections.abc import Callable, Mapping
from threading import get_ident
from time import monotonic_ns
from typing import Any

from ..ring.layout import Record, float_bits
from ..ring.writer import RingWriter
from .state_machine import PhaseStateMachine

VALUE = int(Record.VALUE)
_SLOTS = 256  # values in flight from a device; more are dropped
_WAITING = 4096  # values of other threads between two looks; more are dropped


class LoggedValues:
    """Writes VALUE records; tensors on a device are read once their copy has arrived."""

    def __init__(self, ring: RingWriter, machine: PhaseStateMachine, warn: Callable[[str], None]):
        """Write to the ring of the thread that ``machine`` records."""
        self._ring, self._machine, self._warn = ring, machine, warn
        self._codes: dict[str, int] = {}
        self._warned: set[str] = set()
        self._tensors: Any = None  # torch's class, once torch is imported
        self._strided: Any = None  # torch's name of the usual layout
        self._pinned: Any = None
        self._free: list[int] = []
        self._flying: deque[tuple[int, int, int, Any, Any]] = deque()
        self._events: list[Any] = []
        self._waiting: deque[tuple[int, str, float]] = deque()

    def log(self, values: Mapping[str, object]) -> None:
        """Record every value that is a number; warn once about each name that is not."""
        thread = self._machine.thread
        if not thread:
            return  # nothing is recorded any more
        try:
            time_ns = monotonic_ns()
            if get_ident() != thread:
                self._leave_to_poll(time_ns, values)
                return
            for name, value in values.items():
                code = self._codes.get(name)
                if code is None:
                    code = self._codes[name] = self._ring.code(name)
                kind = type(value)
                if kind is float or kind is int:
                    self._write(time_ns, code, name, value)
                elif self._tensor(time_ns, code, name, value):
                    continue
                elif isinstance(value, numbers.Real):
                    self._write(time_ns, code, name, value)
                else:
                    self._refuse(name, value)
        except Exception as error:
            self._warn(f"log: {type(error).__name__}: {error}")

    def poll(self) -> None:
        """Write what other threads logged and the values whose copies arrived; never waits."""
        while self._waiting:
            logged_ns, name, number = self._waiting.popleft()
            self._write(logged_ns, self._ring.code(name), name, number)
        while self._flying:
            time_ns, code, slot, host, event = self._flying[0]
            if not event.query():
                return
            self._flying.popleft()
            self._write(time_ns, code, "", host.item())
            self._free.append(slot)
            self._events.append(event)

    def _leave_to_poll(self, time_ns: int, values: Mapping[str, object]) -> None:
        """Keep values of another thread: a ring is written by one thread only."""
        for name, value in values.items():
            if getattr(value, "is_cuda", False):
                self._refuse(name, value, "a tensor on a GPU is read in the thread that trains")
                continue
            if len(self._waiting) >= _WAITING:
                self._refuse(name, value, f"other threads logged {_WAITING} values at once")
                continue
            try:
                self._waiting.append((time_ns, name, float(value)))  # type: ignore[arg-type]
            except Exception:  # whatever a class of the user's raises
                self._refuse(name, value)

    def _write(self, time_ns: int, code: int, name: str, value: Any) -> None:
        try:
            bits = float_bits(value)
        except Exception:  # not a number, or one that is too large
            self._refuse(name, value)
            return
        self._ring.write_at(time_ns, VALUE, code, bits)

    def _refuse(self, name: str, value: Any, why: str = "") -> None:
        if name not in self._warned:
            self._warned.add(name)
            why = why or f"{type(value).__name__} is not one number"
            self._warn(f"log({name}=…) ignored: {why}")

    def _tensor(self, time_ns: int, code: int, name: str, value: Any) -> bool:
        if self._tensors is None:
            torch = sys.modules.get("torch")
            self._tensors = getattr(torch, "Tensor", None)
            self._strided = getattr(torch, "strided", None)
        if self._tensors is None or not isinstance(value, self._tensors):
            if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
                self._write(time_ns, code, name, value)  # a 0-d array
                return True
            return False
        # A subclass may communicate or allocate when it is read.
        if type(value) is not self._tensors and (
            type(value) is not sys.modules["torch"].nn.Parameter
        ):
            return False
        if value.layout is not self._strided:
            return False
        if value.is_cpu:
            try:
                number = value.item()  # reads one number, keeps nothing
            except RuntimeError:  # it has several
                return False
            self._write(time_ns, code, name, number)
            return True
        if not value.is_cuda or value.is_complex() or value.numel() != 1:
            return False
        return self._copy(sys.modules["torch"], time_ns, code, value.detach())

    def _copy(self, torch: Any, time_ns: int, code: int, value: Any) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return True  # a copy would become part of the user's graph
        if self._pinned is None:
            self._pinned = torch.empty((_SLOTS, 8), dtype=torch.uint8, pin_memory=True)
            self._free = list(range(_SLOTS))
        self.poll()
        if not self._free:
            return True
        slot = self._free.pop()
        # Same dtype on both sides: a conversion would allocate on the user's device.
        host = self._pinned[slot, : value.element_size()].view(value.dtype).reshape(())
        host.copy_(value.reshape(()), non_blocking=True)
        event = self._events.pop() if self._events else torch.cuda.Event()
        event.record()
        self._flying.append((time_ns, code, slot, host, event))
        return True
