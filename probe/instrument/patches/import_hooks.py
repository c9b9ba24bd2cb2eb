"""Callbacks for the import of a module, which is not imported for them."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]

_waiting: dict[str, list[Callback]] = {}
_lock = threading.RLock()
_busy = threading.local()


def when_imported(name: str, callback: Callback) -> Callable[[], None]:
    """Call ``callback(module)`` now if ``name`` is imported, else right after it is.

    What the callback raises is swallowed: an import must not fail because of us.
    Returns a function that withdraws the callback.
    """
    with _lock:
        module = sys.modules.get(name)
        loading = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if module is None or loading:
            _waiting.setdefault(name, []).append(callback)
            if _finder not in sys.meta_path:
                sys.meta_path.insert(0, _finder)
            return lambda: _withdraw(name, callback)
    with contextlib.suppress(Exception):
        callback(module)
    return lambda: None


def _withdraw(name: str, callback: Callback) -> None:
    with _lock, contextlib.suppress(ValueError):
        _waiting.get(name, []).remove(callback)
        if not _waiting.get(name):
            _waiting.pop(name, None)
    _leave_if_idle()


def _leave_if_idle() -> None:
    with _lock, contextlib.suppress(ValueError):
        if not _waiting:
            sys.meta_path.remove(_finder)


def _imported(name: str) -> None:
    with _lock:
        callbacks = _waiting.pop(name, [])
    module = sys.modules.get(name)
    for callback in callbacks:
        with contextlib.suppress(Exception):
            if module is not None:
                callback(module)
    _leave_if_idle()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: lets the others find the module and wraps its loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        inside: set[str] = _busy.__dict__.setdefault("names", set())
        if name not in _waiting or name in inside:
            return None
        inside.add(name)
        try:
            spec = importlib.util.find_spec(name)
        except Exception:  # the import itself will raise it for the user
            return None
        finally:
            inside.discard(name)
        if spec is not None and isinstance(spec.loader, importlib.abc.Loader):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own loader, followed by the callbacks."""

    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader  # as if it had never been wrapped
        self._loader.exec_module(module)
        _imported(module.__name__)


_finder = _Finder()
