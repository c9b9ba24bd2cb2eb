"""A thread that trains beside the first one: what it writes to, and its machine."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from ..errors import StoreError
from ..ring.layout import Code, Record
from ..ring.writer import RingWriter
from .state_machine import PhaseStateMachine

_MOST_WAITING = 1024  # records of a thread that has not run a backward yet
MARK, STEP = int(Record.MARK), int(Record.STEP)
OUTSIDE, BACKWARD = int(Code.OUTSIDE), int(Code.BACKWARD)
OTHER, STARTUP = int(Code.OTHER), int(Code.STARTUP)


class LaneRing:
    """What a thread's machine writes to; a file from the thread's first backward or step on."""

    def __init__(self, open_ring: Callable[[], RingWriter], on_step: Callable[[], None]):
        """``on_step`` is called after each step that closes."""
        self._open_ring, self._on_step = open_ring, on_step
        self._waiting: deque[tuple[int, int, int, int]] = deque(maxlen=_MOST_WAITING)
        self._refused = False
        self.ring: RingWriter | None = None
        self.begun_ns = 0  # of the next mark, where it is known from before
        self.last_ns = 0

    def write(self, kind: int, code: int, payload: int) -> None:
        """As :class:`RingWriter`."""
        time_ns, self.begun_ns = self.begun_ns or monotonic_ns(), 0
        self.write_at(time_ns, kind, code, payload)

    def write_at(self, time_ns: int, kind: int, code: int, payload: int) -> None:
        """As :class:`RingWriter`."""
        self.last_ns = time_ns
        if kind == MARK and code == STARTUP:
            code = OTHER  # the process has started long ago
        if self.ring is not None:
            self.ring.write_at(time_ns, kind, code, payload)
        elif not self._refused:
            self._waiting.append((time_ns, kind, code, payload))
            if kind == STEP or (kind == MARK and code == BACKWARD):
                self._open()
        if kind == STEP:
            self._on_step()

    def pause(self) -> None:
        """Nothing was done since the last record, until the next one."""
        if self.ring is not None:
            self.ring.write_at(self.last_ns, MARK, OUTSIDE, -1)

    def code(self, name: str) -> int:
        """The number of a name of the user's."""
        if self.ring is None:
            self._open()
        return OTHER if self.ring is None else self.ring.code(name)

    def _open(self) -> None:
        if self._refused:
            return
        try:
            self.ring = self._open_ring()
        except StoreError:
            self._refused = True
            return
        for record in self._waiting:
            self.ring.write_at(*record)
        self._waiting.clear()


class Lane:
    """One thread that trains beside the first: its machine and its ring."""

    def __init__(self, ring: LaneRing, machine: PhaseStateMachine):
        """Be the lane of the calling thread."""
        self.ring, self.machine = ring, machine

    def leave(self, _code: int) -> None:
        """The backward that the first machine was told of has ended."""
        self.machine.backward_end(True, True)

    def has_ended(self) -> bool:
        """Whether its thread has."""
        return self.machine.thread not in sys._current_frames()
