"""Finds optimizers that were made before a watch began, in the variables of the functions that run.

Also in attributes, lists and dictionaries of those. Looking at all objects in memory would take
half a second where there are 10⁵ modules.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType, FunctionType, ModuleType
from typing import Any

_FRAMES, _EACH, _MOST = 64, 512, 20_000  # of one container, of all that is looked at
_DEPTH = 2  # self.trainer.optimizer
_NAMESPACES = frozenset(["locals", "vars", "exec"])
_ITS_OWN_AND_OURS = 3  # references to the copy of a frame's variables: frame, name, argument
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, ModuleType)


def held_optimizers() -> list[Any]:
    """Optimizers that the caller and the functions that called it hold."""
    from torch.optim import Optimizer

    if not any(map(says_its_steps, _kinds(Optimizer))):  # none was ever made
        return []
    search = _Search()
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            break
        search.look(_local_values(frame), _DEPTH)
        if id(frame.f_globals) not in search.seen:
            search.seen.add(id(frame.f_globals))
            search.look(list(frame.f_globals.values()), _DEPTH)
        frame = frame.f_back
    return search.held


class _Search:
    """What was found, and ids of what has been looked at."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.seen: set[int] = set()

    def look(self, values: Iterable[Any], depth: int) -> None:
        """Look at values, and into those that are no optimizers."""
        from torch import nn
        from torch.optim import Optimizer

        for value in islice(values, _EACH):
            kind = type(value)
            if kind in _PLAIN or id(value) in self.seen or len(self.seen) >= _MOST:
                continue
            self.seen.add(id(value))
            kinds = kind.__mro__  # not isinstance: on proxies it may import whole packages
            if Optimizer in kinds:
                self.held.append(value)
            elif depth and nn.Module not in kinds:
                self.look(_inside(value, kinds), depth - 1)


def _kinds(kind: type) -> Iterator[type]:
    inner: type
    for inner in kind.__subclasses__():
        yield inner
        yield from _kinds(inner)


def says_its_steps(kind: Any) -> bool:
    """Whether hooks are called around its steps: torch sees to that when one is made.

    Not of what only wraps another optimizer, as accelerate's does.
    """
    return bool(getattr(getattr(kind, "step", None), "hooked", False))


def _local_values(frame: FrameType) -> list[Any]:
    if not _NAMESPACES.isdisjoint(frame.f_code.co_names):
        return []  # it may keep what locals() gave it, which a look would change before Python 3.13
    names = frame.f_locals
    if names is frame.f_globals:
        return []
    values = list(names.values())
    copied = type(names) is dict and frame.f_code.co_flags & inspect.CO_NEWLOCALS
    if copied and sys.getrefcount(names) <= _ITS_OWN_AND_OURS:
        names.clear()  # it would keep what the function lets go of
    return values


def _inside(value: Any, kinds: tuple[type, ...]) -> list[Any]:
    if dict in kinds:
        return list(islice(dict.values(value), _EACH))
    if list in kinds or tuple in kinds:
        plain: Any = list if list in kinds else tuple
        return list(islice(plain.__iter__(value), _EACH))
    try:
        names = object.__getattribute__(value, "__dict__")
    except Exception:  # it has none, or one that is no plain attribute
        return []
    return list(islice(names.values(), _EACH)) if type(names) is dict else []
