"""Offers modules of a root's class to the finder of roots when they are called, at any time."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..patches.wrappers import Listener

_MOST_REFUSED = 256  # then all are offered once more


class ClassMates:
    """What is no root, as a transform without parameters, may be called for each sample."""

    def __init__(self, hear: Callable[[Any], Listener | None]):
        """``hear`` gives the listener of a module that is a root from now on, or None."""
        self._hear = hear
        self._refused: dict[int, weakref.ref[Any]] = {}  # by their ids

    def hear(self, module: Any) -> Listener | None:
        """Offer a module that is called, unless it was refused before."""
        refused = self._refused.get(id(module))
        if refused is not None and refused() is module:
            return None
        listener = self._hear(module)
        if listener is None:
            if len(self._refused) >= _MOST_REFUSED:
                self._refused.clear()
            self._refused[id(module)] = weakref.ref(module)
        return listener
