"""Listeners of a module's calls, at its class's ``__call__``.

A module that has forward hooks takes torch's long way through a call, and copies, pickles and
scripts of it take the hooks along. A class's ``__call__`` knows which module is called, so that
nothing is added to any module; calls of other modules of the class are passed through.

Dynamo inlines this file and ``torch_patches.py``; it skips the others that run in a training.
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
from .patching import replace
from .wrappers import CallWrapper, DiscoveringCall, Listener, TwoListeners, without

Call = Callable[..., Any]

_lock = threading.RLock()  # a module may die at any moment
_patched: dict[type, _PatchedClass] = {}
_dead: list[Listening] = []  # whose modules died while another thread had the lock


class Listening:
    """One listener of one module, until ``remove``."""

    def __init__(self, module: nn.Module, listener: Listener):
        """Listen from now on.

        Raises:
            Exception: whatever a class raises that does not let its ``__call__`` be replaced.
        """
        self.module = weakref.ref(module, self._died)
        self._owner, self._id, self._listener = type(module), id(module), listener
        with _lock:
            _forget_dead()
            patched = _patched.get(self._owner)
            if patched is None:
                patched = _patched[self._owner] = _PatchedClass(self._owner)
            patched.add(self._id, listener)

    def remove(self) -> None:
        """Restore the class, unless there are other listeners of its modules."""
        with _lock:
            _forget_dead()
            patched = _patched.get(self._owner)
            if patched is not None and patched.drop(self._id, self._listener):
                del _patched[self._owner]
                patched.undo()

    def _died(self, _reference: object) -> None:
        # Collected where memory is allocated, by a thread that may hold what the lock's holder
        # waits for: so this one must not wait.
        _dead.append(self)
        if _lock.acquire(blocking=False):
            try:
                _forget_dead()
            finally:
                _lock.release()


def _forget_dead() -> None:
    """Drop listeners of modules that died; needs the lock. Another module may get such an id."""
    while _dead:
        listening = _dead.pop()
        if (patched := _patched.get(listening._owner)) is not None:
            patched.drop(listening._id, listening._listener)


class _PatchedClass:
    """Our ``__call__`` on one class. Below a later patch it stays, as a pass-through."""

    def __init__(self, owner: type):
        self._listeners: dict[int, Listener] = {}
        self._wrapper = CallWrapper(owner, self._listeners)
        self.undo = put(
            lambda by: replace(owner, "__call__", by),
            self._wrapper,
            _unless_traced(_lasting(owner.__call__), self._wrapper),
        )

    def add(self, module: int, listener: Listener) -> None:
        before = self._listeners.get(module)
        self._listeners[module] = listener if before is None else TwoListeners(before, listener)
        self._wrapper.settle()

    def drop(self, module: int, listener: Listener) -> bool:
        """Returns True if no listener is left."""
        left = without(self._listeners.pop(module, None), listener)
        if left is not None:
            self._listeners[module] = left
        self._wrapper.settle()
        return not self._listeners


def _lasting(call: Call) -> Call:
    """What is called below what stands there only while roots are looked for."""
    return call.__wrapped__ if isinstance(call, DiscoveringCall) else call


def _unless_traced(original: Call, wrapper: Call) -> Call:
    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 (the name it replaces)
        if is_dynamo_compiling():
            return original(self, *args, **kwargs)
        return wrapper(self, *args, **kwargs)

    return __call__


def wrapper_code() -> CodeType:
    """The code of what is put on classes, where dynamo should begin one frame further in."""
    return _unless_traced(nn.Module.__call__, nn.Module.__call__).__code__
