"""How a process below `probe run` ends: by which exception, with which code. Changes nothing.

A script that is watched from outside has no ``with`` that an exception passes through. What the
interpreter tells at its end is noted on the way: its hook for exceptions, ``sys.exit`` where
nothing can catch it any more, and ``os._exit``, with which forked children end.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from types import TracebackType
from typing import Any, NoReturn, Protocol

from ..redact import redact_text

_LONGEST_REASON = 300
_LAST_CALLERS = ("multiprocessing.spawn", "multiprocessing.forkserver")


class Closable(Protocol):
    """A run, as its process's end sees it."""

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """End the recording."""


def reason_of(error: BaseException | None) -> str:
    """Why a watched block or process failed, in one line without secrets."""
    message = redact_text(" ".join(str(error).split()))[:_LONGEST_REASON]
    kind = type(error).__name__
    return f"{kind}: {message}" if message else kind


class ProcessEnd:
    """Closes a run at the end of its process, with the code and the exception that ended it."""

    def __init__(self, run: Closable, *, forked: bool):
        """Take note from now on.

        Args:
            run: of this process.
            forked: it was forked, so it may end by ``os._exit``, past all of atexit.
        """
        self._run, self._pid = run, os.getpid()
        self._code, self._error = 0, ""
        self._chain_excepthook()
        self._watch_exit()
        if forked:
            self._watch_hard_exit()
        atexit.register(self.close)

    def close(self, code: int | None = None) -> None:
        """End the recording; nothing of it is raised."""
        if os.getpid() != self._pid:
            return
        code = self._code if code is None else code
        try:
            self._run.close(failed=code != 0, exit_code=code, error=self._error)
        except Exception:  # its process ends; nothing of ours may be the last word
            return

    def _chain_excepthook(self) -> None:
        before = sys.excepthook

        @functools.wraps(before)
        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            try:
                if os.getpid() == self._pid:
                    self._code = 130 if issubclass(kind, KeyboardInterrupt) else 1
                    self._error = reason_of(error)
            finally:
                before(kind, error, trace)

        sys.excepthook = hook

    def _watch_exit(self) -> None:
        before = sys.exit

        @functools.wraps(before)
        def leave(status: Any = None, /) -> NoReturn:
            if os.getpid() == self._pid and _is_last(sys._getframe(1)):
                self._code = status if isinstance(status, int) else int(status is not None)
            before(status)

        sys.exit = leave

    def _watch_hard_exit(self) -> None:
        before = os._exit

        @functools.wraps(before)
        def leave(status: int) -> NoReturn:
            self.close(status)
            before(status)

        os._exit = leave


def _is_last(frame: Any) -> bool:
    """Whether a frame is the outermost of its script, or of a child of multiprocessing."""
    if frame.f_globals.get("__name__") in _LAST_CALLERS:
        return True
    below = frame.f_back
    return frame.f_code.co_name == "<module>" and (
        below is None or below.f_globals.get("__name__") == "runpy"
    )
