"""A failure in a part of the recorder ends that part, never the recording."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar


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
            _say(f"{self._consequence}: {type(error).__name__}: {error}")


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


class DiskGuard:
    """``with disk():`` around writes. An OSError is printed once; the caller tries again later."""

    def __init__(self) -> None:
        self._last = ""

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if str(error) != self._last:
                self._last = str(error)
                _say(f"the disk refused: {error}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
