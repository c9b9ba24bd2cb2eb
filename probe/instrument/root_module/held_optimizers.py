"""The optimizers that the functions that run now hold: those made before anybody listened.

Only where a program has them (a variable, an attribute, a list or a dictionary of those): a look at
all objects in memory takes half a second where there are 10⁵ modules.
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
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, ModuleType)


def held_optimizers(frame: FrameType | None = None) -> list[Any]:
    """Optimizers that ``frame`` and those that called it hold; None: the caller's."""
    from torch import nn
    from torch.optim import Optimizer

    if not any(_was_made(kind) for kind in _kinds(Optimizer)):
        return []
    held: list[Any] = []
    seen: set[int] = set()

    def look(values: Iterable[Any], depth: int) -> None:
        for value in islice(values, _EACH):
            kind = type(value)
            if kind in _PLAIN or id(value) in seen or len(seen) >= _MOST:
                continue
            seen.add(id(value))
            kinds = kind.__mro__  # not isinstance: on proxies it may import whole packages
            if Optimizer in kinds:
                held.append(value)
            elif depth and nn.Module not in kinds:
                look(_inside(value), depth - 1)

    frame = frame or sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            break
        look(_local_values(frame), _DEPTH)
        if id(frame.f_globals) not in seen:
            seen.add(id(frame.f_globals))
            look(list(frame.f_globals.values()), _DEPTH)
        frame = frame.f_back
    return held


def _kinds(kind: type) -> Iterator[type]:
    inner: type
    for inner in kind.__subclasses__():
        yield inner
        yield from _kinds(inner)


def _was_made(kind: Any) -> bool:
    """Whether there ever was such an optimizer: torch wraps a class's step when one is made."""
    return bool(getattr(kind.step, "hooked", False))


def _local_values(frame: FrameType) -> list[Any]:
    names = frame.f_locals
    if names is frame.f_globals:
        return []
    values = list(names.values())
    if type(names) is dict and frame.f_code.co_flags & inspect.CO_NEWLOCALS:
        names.clear()  # a copy, which would keep what the function lets go of
    return values


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return list(islice(value.values(), _EACH))
    if isinstance(value, (list, tuple)):
        return value[:_EACH]
    try:
        names = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return ()
    return list(islice(names.values(), _EACH)) if isinstance(names, dict) else ()
