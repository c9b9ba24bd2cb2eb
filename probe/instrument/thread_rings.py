"""Phases of other threads: each thread writes MARK … LEAVE into its ring."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import StoreError
from ..ring.layout import THREAD_CAPACITY, Record
from ..ring.writer import RingWriter

MARK, LEAVE = int(Record.MARK), int(Record.LEAVE)


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


class ThreadRings:
    """The rings of all threads but the main one, each opened at its first edge."""

    def __init__(self, open_ring: Callable[[str, int], RingWriter]):
        self._open = open_ring
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[ThreadRing] = []
        self.dropped = 0  # edges of threads whose ring could not be opened

    def here(self) -> ThreadRing | None:
        """The ring of the calling thread; None if it cannot have one."""
        try:
            thread_ring: ThreadRing | None = self._local.ring
        except AttributeError:
            thread_ring = self._local.ring = self._opened()
        if thread_ring is None:
            self.dropped += 1
        return thread_ring

    def enter_if_active(self, code: int) -> ThreadRing | None:
        """Enter ``code`` if this thread already is in a phase."""
        thread_ring: ThreadRing | None = getattr(self._local, "ring", None)
        if thread_ring is None or not thread_ring.active:
            return None
        thread_ring.enter(code)
        return thread_ring

    def enter_engine_thread(self, code: int) -> ThreadRing | None:
        """Enter ``code`` if this is a thread of the autograd engine, not one of Python's."""
        thread_ring = self.here() if self.native() else None
        if thread_ring is not None:
            thread_ring.enter(code)
        return thread_ring

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

    def close(self) -> None:
        """Say in every ring that nothing follows."""
        for thread_ring in self._all:
            thread_ring.ring.close()

    def _opened(self) -> ThreadRing | None:
        with self._lock:
            # A native id is used again after its thread has ended; the number is not.
            label = f"t{threading.get_native_id()}n{len(self._all)}"
            try:
                thread_ring = ThreadRing(self._open(label, THREAD_CAPACITY))
            except StoreError:
                return None
            self._all.append(thread_ring)
            return thread_ring
