"""Calls of modules, heard where their classes keep ``__call__``.

A module that has forward hooks takes torch's long way through a call, and copies, pickles and
scripts of it take the hooks along. A class's ``__call__`` is told which module is called, so that
nothing of ours is on any module; other modules of the class are passed through.

Dynamo inlines this file and ``signals.py``; others that run in a training it is told to skip.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import nn
from torch.compiler import is_dynamo_compiling

from .dynamo import put
from .registry import replace
from .wrappers import Called, Listener

Call = Callable[..., Any]

_lock = threading.RLock()  # a module may die at any moment
_layers: dict[type, _Layer] = {}


class Listening:
    """One listener of one module, until ``remove``."""

    def __init__(self, module: nn.Module, listener: Listener):
        """Raises whatever a class raises that does not let its ``__call__`` be replaced."""
        self.module = weakref.ref(module, self._died)
        self._owner, self._id, self._listener = type(module), id(module), listener
        with _lock:
            layer = _layers.get(self._owner)
            if layer is None:
                layer = _layers[self._owner] = _Layer(self._owner)
            layer.add(self._id, listener)

    def remove(self) -> None:
        """Leave the class as it was, if nobody else listens to one of its modules."""
        with _lock:
            layer = _layers.get(self._owner)
            if layer is not None and layer.drop(self._id, self._listener):
                del _layers[self._owner]
                layer.undo()

    def _died(self, _reference: object) -> None:
        with _lock:  # another module may get its id
            if (layer := _layers.get(self._owner)) is not None:
                layer.drop(self._id, self._listener)


class _Layer:
    """Our ``__call__`` on one class. Who patched on top of it keeps it, as a pass-through."""

    def __init__(self, owner: type):
        self._heard: dict[int, Listener] = {}
        called = self._called = Called(owner, self._heard)
        self.undo = put(
            lambda by: replace(owner, "__call__", by), called, _seen_through(owner.__call__, called)
        )

    def add(self, module: int, listener: Listener) -> None:
        already = self._heard.get(module)
        self._heard[module] = listener if already is None else _Both(already, listener)
        self._called.settle()

    def drop(self, module: int, listener: Listener) -> bool:
        """Returns True if no listener is left."""
        left = _without(self._heard.pop(module, None), listener)
        if left is not None:
            self._heard[module] = left
        self._called.settle()
        return not self._heard


class _Both(Listener):
    """Two listeners as one."""

    def __init__(self, first: Listener, second: Listener):
        self.first, self.second = first, second

    def begin(self, args: Any) -> None:
        self.first.begin(args)
        self.second.begin(args)

    def end(self, output: Any) -> None:
        self.second.end(output)
        self.first.end(output)


def _without(heard: Listener | None, listener: Listener) -> Listener | None:
    if isinstance(heard, _Both):
        first, second = _without(heard.first, listener), _without(heard.second, listener)
        return _Both(first, second) if first and second else first or second
    return None if heard is listener else heard


def _seen_through(original: Call, called: Call) -> Call:
    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 (the name it replaces)
        if is_dynamo_compiling():
            return original(self, *args, **kwargs)
        return called(self, *args, **kwargs)

    return __call__


def code() -> CodeType:
    """Of what dynamo finds on classes: where it begins with that, it should begin further in."""
    return _seen_through(nn.Module.__call__, nn.Module.__call__).__code__
