"""A failure in a part of the recorder ends that part, never the recording."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from .log import log


class FaultGuard:
    """``with guard():`` swallows what fails inside; ``broken`` is True once something did.

    An OSError of the disk is raised, for the recorder's :class:`DiskGuard`.
    """

    def __init__(self, consequence: str, on_fault: Callable[[], None] = lambda: None):
        """Begin unbroken.

        Args:
            consequence: what no longer happens, for the log.
            on_fault: called when something has failed.
        """
        self.broken = False
        self._consequence, self._on_fault = consequence, on_fault

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            self.broken = True
            self._on_fault()
            log(f"{self._consequence}: {type(error).__name__}: {error}")


class _Guarded(Protocol):
    guard: FaultGuard


_Self = TypeVar("_Self", bound=_Guarded)
_Arguments = ParamSpec("_Arguments")


def guarded(
    method: Callable[Concatenate[_Self, _Arguments], None],
) -> Callable[Concatenate[_Self, _Arguments], None]:
    """Run the method under its object's ``guard``, and no more once that is broken."""

    @functools.wraps(method)
    def run(self: _Self, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        if not self.guard.broken:
            with self.guard():
                method(self, *args, **kwargs)

    return run


_CLEAN_ROUNDS = 2


class DiskGuard:
    """``with disk():`` around writes. An OSError is logged once; the caller tries again later."""

    def __init__(self) -> None:
        self._last = ""
        self._rounds = _CLEAN_ROUNDS

    def refuses(self) -> bool:
        """Whether the disk has refused anything in this round or the last ones.

        Each call ends a round. On a full disk small writes succeed now and then.
        """
        self._rounds += 1
        return self._rounds <= _CLEAN_ROUNDS

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._rounds = 0
            if str(error) != self._last:
                self._last = str(error)
                log(f"the disk refused: {error}")


class TaskGuard:
    """``with task():`` around each of the recorder's duties: what fails is tried again later.

    Whatever happens inside (no descriptors, no memory, a vanished directory, a bug of ours), the
    recording goes on. Every failure is logged the first time, and then when it is another one.
    """

    def __init__(self) -> None:
        self._last = ""
        self.failures = 0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failures += 1
            why = f"{type(error).__name__}: {error}"
            if why != self._last:
                self._last = why
                log(f"the recorder goes on after {why}")
