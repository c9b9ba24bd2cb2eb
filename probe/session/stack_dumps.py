"""Has this process write where it stands, should it hang: ``watch(hang_after=…)``.

:mod:`faulthandler` keeps a thread in C that waits, and writes the stack of every thread into a file
of the run unless it is put off in time. It needs neither the interpreter's lock nor a thread of
Python that still runs. No signal is involved, and nothing outside this process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from ..store.new_files import open_to_append
from ..store.run_fields import HangFields

_LARGEST = 1 << 20  # bytes of stacks; evaluations that are longer than the limit add to them


class StackDumps:
    """A file that gets the stacks ``after_s`` seconds after the last :meth:`put_off`, and again.

    A process has one such timer: it takes the place of the script's own
    ``faulthandler.dump_traceback_later``.
    """

    def __init__(self, path: Path, after_s: float):
        """Begin to wait. Never raises: without a file a hang is named without its stacks.

        Args:
            path: the file that stacks are appended to.
            after_s: seconds without an edge that are a hang.
        """
        self._path, self._after_s, self._fd = path, after_s, -1
        self._lock = threading.Lock()  # held while another thread forks
        self.fields: HangFields = {"after_s": after_s, "thread": threading.get_ident()}
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            self._fd = open_to_append(path)
            self.put_off()
            _open.append(self)
            _watch_forks()

    def put_off(self) -> None:
        """The training goes on: wait anew. Called about once a second, 0.1 ms. Raises OSError."""
        if self._fd < 0 or not self._lock.acquire(blocking=False):
            return
        try:
            if os.fstat(self._fd).st_size > _LARGEST:
                os.ftruncate(self._fd, 0)
            self._begin()
        finally:
            self._lock.release()

    def close(self) -> None:
        """End it; an empty file is removed. Never raises."""
        if self._fd < 0:
            return
        _open.remove(self)
        with self._lock, contextlib.suppress(OSError):
            _cancel()
            if not os.fstat(self._fd).st_size:
                self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1

    def before_fork(self) -> None:
        """End the wait: a child would wait at its end for a thread that it does not have."""
        self._lock.acquire()
        _cancel()

    def after_fork(self) -> None:
        """In the parent: wait again."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            self._begin()
        self._lock.release()

    def _begin(self) -> None:
        import faulthandler  # only who wants it pays for it

        faulthandler.dump_traceback_later(self._after_s, repeat=True, file=self._fd)


_open: list[StackDumps] = []
_watches_forks = False


def _cancel() -> None:
    import faulthandler

    faulthandler.cancel_dump_traceback_later()


def _watch_forks() -> None:
    global _watches_forks
    if not _watches_forks:
        _watches_forks = True
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork, after_in_child=_open.clear
        )


def _before_fork() -> None:
    for each in _open:
        each.before_fork()


def _after_fork() -> None:
    for each in _open:
        each.after_fork()
