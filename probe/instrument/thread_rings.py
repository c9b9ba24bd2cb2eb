"""Phases of other threads: each thread writes MARK … LEAVE into a ring.

A ring takes a file descriptor and memory, so a thread gives its ring back when it ends, and the
next one writes on in it. Threads that find all of them taken are not recorded, but counted.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..errors import StoreError
from ..ring.layout import THREAD_CAPACITY, Code, Record
from ..ring.writer import RingWriter

MOST_THREADS = 64  # that are in phases at once, each with a descriptor and 0.3 MB
_JOINING = ("join", "_wait_for_tstate_lock")  # of threading
MARK, LEAVE, BACKWARD = int(Record.MARK), int(Record.LEAVE), int(Code.BACKWARD)


class Left(Protocol):
    """What was entered on another thread."""

    def leave(self, code: int, /) -> None:
        """Leave it."""


class ThreadRing:
    """The ring of one thread and the phases that it is in, innermost last."""

    __slots__ = ("_codes", "ring")

    def __init__(self, ring: RingWriter):
        self.ring = ring
        self._codes: list[int] = []

    @property
    def active(self) -> bool:
        """Whether the thread is in a phase."""
        return bool(self._codes)

    def enter(self, code: int) -> None:
        """Enter a phase."""
        self._codes.append(code)
        self.ring.write(MARK, code, -1)

    def leave(self, code: int) -> None:
        """Leave a phase; the one around it goes on."""
        codes = self._codes
        for place in range(len(codes) - 1, -1, -1):
            if codes[place] == code:
                del codes[place]
                break
        if codes:
            self.ring.write(MARK, codes[-1], -1)
        else:
            self.ring.write(LEAVE, code, -1)

    def leave_all(self) -> None:
        """Leave what the thread was in when it ended."""
        while self._codes:
            self.leave(self._codes[-1])


class _Lease:
    """Lives in a thread's local storage; when the thread ends, its ring is free again."""

    __slots__ = ("_give_back", "thread_ring")

    def __init__(self, thread_ring: ThreadRing, give_back: Callable[[ThreadRing], None]):
        self.thread_ring, self._give_back = thread_ring, give_back

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._give_back(self.thread_ring)


class ThreadRings:
    """The rings of all threads but the main one; a thread takes one at its first edge."""

    def __init__(self, open_ring: Callable[[str, int], RingWriter]):
        self._open = open_ring
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[ThreadRing] = []
        self._unused: deque[ThreadRing] = deque()  # its operations are atomic: no lock in __del__
        self.dropped = 0  # edges of threads that had no ring
        # Asked by a thread that begins a backward while another one is recorded.
        self.begin_backward: Callable[[], Left | None] = lambda: None

    def here(self) -> ThreadRing | None:
        """The ring of the calling thread; None if it cannot have one."""
        lease: _Lease | None = getattr(self._local, "lease", None)
        if lease is None:
            thread_ring = self._take()
            if thread_ring is None:  # asked again at its next edge: another thread may have ended
                self.dropped += 1
                return None
            lease = self._local.lease = _Lease(thread_ring, self._give_back)
        return lease.thread_ring

    def missing(self) -> str:
        """One line about what could not be recorded; else nothing."""
        if not self.dropped:
            return ""
        return (
            f"{self.dropped} edges of threads are missing: only {MOST_THREADS} threads can be "
            "in phases at once"
        )

    def enter_if_active(self, code: int) -> Left | None:
        """Enter ``code`` if this thread already is in a phase, or trains."""
        trains = self.begin_backward() if code == BACKWARD else None
        if trains is not None:
            return trains
        lease: _Lease | None = getattr(self._local, "lease", None)
        if lease is None or not lease.thread_ring.active:
            return None
        lease.thread_ring.enter(code)
        return lease.thread_ring

    def enter_engine_thread(self, code: int) -> ThreadRing | None:
        """Enter ``code`` if this is a thread of the autograd engine, not one of Python's."""
        thread_ring = self.here() if self.native() else None
        if thread_ring is not None:
            thread_ring.enter(code)
        return thread_ring

    @staticmethod
    def waits(thread: int) -> bool:
        """Whether a thread has ended, or waits for another one (``join``, a queue, a future)."""
        frame = sys._current_frames().get(thread)
        return frame is None or frame.f_code.co_filename == threading.__file__

    @staticmethod
    def joins(thread: int) -> bool:
        """Whether a thread has ended, or waits for the end of another one."""
        frame = sys._current_frames().get(thread)
        if frame is None:
            return True
        code = frame.f_code
        return code.co_filename == threading.__file__ and code.co_name in _JOINING

    def native(self) -> bool:
        """Whether C++ started this thread, as the autograd engine does."""
        native: bool | None = getattr(self._local, "native", None)
        if native is None:
            here = threading.get_ident()
            # threading.current_thread() there creates a dummy.
            native = all(
                thread.ident != here or isinstance(thread, threading._DummyThread)
                for thread in threading.enumerate()
            )
            self._local.native = native
        return native

    def all(self) -> list[RingWriter]:
        """Every ring that was opened."""
        return [thread_ring.ring for thread_ring in self._all]

    def close(self) -> None:
        """Say in every ring that nothing follows."""
        for thread_ring in self._all:
            thread_ring.ring.close()

    def _give_back(self, thread_ring: ThreadRing) -> None:
        """In a thread that ends: leave the phases that it was in."""
        thread_ring.leave_all()
        self._unused.append(thread_ring)

    def _take(self) -> ThreadRing | None:
        with contextlib.suppress(IndexError):
            return self._unused.popleft()
        with self._lock:
            if len(self._all) >= MOST_THREADS:
                return None
            # A native id is used again after its thread has ended; the number is not.
            label = f"t{threading.get_native_id()}n{len(self._all)}"
            try:
                thread_ring = ThreadRing(self._open(label, THREAD_CAPACITY))
            except StoreError:
                return None
            self._all.append(thread_ring)
            return thread_ring
