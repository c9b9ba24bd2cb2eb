"""What dynamo may have to see through is compiled until dynamo traces for the first time.

A frame of Python, and asking in it whether dynamo traces, take microseconds of a step; most
trainings compile nothing.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .import_hooks import when_imported
from .registry import replace

Undo = Callable[[], bool]  # False: not undone, for somebody patched on top
Fill = Callable[[Any], Undo]

# Whatever is traced, a translator begins it; but before, torch.compile keeps the call of a module.
_BEGINNINGS = {
    "torch._dynamo.eval_frame": "OptimizeContext",
    "torch._dynamo.symbolic_convert": "InstructionTranslator",
}

_lock = threading.RLock()
_traces = False
_places: set[_Place] = set()  # that hold what is compiled
_hearing: list[Callable[[], object]] = []


class _Place:
    def __init__(self, fill: Fill, compiled: Any, visible: Any):
        self._fill, self._visible = fill, visible
        self._undo = fill(visible if _traces else compiled)

    def show(self) -> None:
        if self._undo():
            self._undo = self._fill(self._visible)

    def undo(self) -> None:
        with _lock:
            _places.discard(self)
            if not _places:
                _hear_no_more()
            self._undo()


def put(fill: Fill, compiled: Any, visible: Any) -> Callable[[], None]:
    """Fill a place with ``compiled``; with ``visible`` before dynamo traces, or if it ever did.

    If somebody patches on top before that, dynamo will break its graph at what is compiled.
    Returns what takes it away again; raises whatever ``fill`` raises.
    """
    with _lock:
        place = _Place(fill, compiled, visible)
        if not _traces:
            _places.add(place)
            if len(_places) == 1:
                _hear()
    return place.undo


def _hear() -> None:
    for name, kind in _BEGINNINGS.items():
        if not _traces:
            _hearing.append(when_imported(name, functools.partial(_patch, kind)))


def _hear_no_more() -> None:
    while _hearing:
        _hearing.pop()()


def _patch(kind: str, module: ModuleType) -> None:
    with _lock:
        frames = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0)
        if _traces or frames or not hasattr(module, kind):  # not: another version of torch
            _begin()
        else:
            owner = getattr(module, kind)
            _hearing.append(replace(owner, "__init__", _beginning(owner.__init__)))


def _beginning(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807 (the name it replaces)
        _begin()
        original(*args, **kwargs)

    return __init__


def _begin() -> None:
    global _traces
    with _lock:
        _traces = True
        _hear_no_more()
        while _places:
            with contextlib.suppress(Exception):  # we are inside the user's torch.compile
                _places.pop().show()
