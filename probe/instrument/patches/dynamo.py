"""Patches that dynamo may meet are compiled code until dynamo traces for the first time.

A frame of Python that asks whether dynamo traces takes microseconds of a step; most trainings
compile nothing. Dynamo cannot see through compiled code, so each such patch has a *visible* twin in
Python, which takes its place when dynamo begins.
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
from .patching import replace

Undo = Callable[[], bool]  # False: not undone, because of a later patch
Fill = Callable[[Any], Undo]

# Whatever is traced, a translator begins it; but before, torch.compile keeps the call of a module.
_BEGINNINGS = {
    "torch._dynamo.eval_frame": "OptimizeContext",
    "torch._dynamo.symbolic_convert": "InstructionTranslator",
}

_lock = threading.RLock()
_traces = False
_compiled: set[_Place] = set()  # the places that hold compiled code
_undo_listening: list[Callable[[], object]] = []


class _Place:
    """A name of torch that is filled with compiled code or its visible twin."""

    def __init__(self, fill: Fill, compiled: Any, visible: Any):
        self._fill, self._visible = fill, visible
        self._undo = fill(visible if _traces else compiled)

    def show(self) -> None:
        if self._undo():
            self._undo = self._fill(self._visible)

    def undo(self) -> None:
        with _lock:
            _compiled.discard(self)
            if not _compiled:
                _stop_listening()
            self._undo()


def put(fill: Fill, compiled: Any, visible: Any) -> Callable[[], None]:
    """Fill a place with ``compiled``; with ``visible`` once dynamo begins, or if it ever did.

    If the place is patched again before that, dynamo breaks its graph at the compiled code.

    Args:
        fill: puts its argument in place and returns what undoes that.
        compiled: is used until dynamo begins.
        visible: does the same, and only calls the original while dynamo traces.

    Returns:
        What empties the place.

    Raises:
        Exception: whatever ``fill`` raises.
    """
    with _lock:
        place = _Place(fill, compiled, visible)
        if not _traces:
            _compiled.add(place)
            if len(_compiled) == 1:
                _listen()
    return place.undo


def _listen() -> None:
    for name, kind in _BEGINNINGS.items():
        if not _traces:
            _undo_listening.append(when_imported(name, functools.partial(_patch, kind)))


def _stop_listening() -> None:
    while _undo_listening:
        _undo_listening.pop()()


def _patch(kind: str, module: ModuleType) -> None:
    with _lock:
        frames = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0)
        if _traces or frames or not hasattr(module, kind):  # not: another version of torch
            _begin()
        else:
            owner = getattr(module, kind)
            _undo_listening.append(replace(owner, "__init__", _beginning(owner.__init__)))


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
        _stop_listening()
        while _compiled:
            with contextlib.suppress(Exception):  # we are inside the user's torch.compile
                _compiled.pop().show()
