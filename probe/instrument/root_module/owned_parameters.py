"""The parameters of the optimizers that are known."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from . import living_modules
from .held_optimizers import held_optimizers


class OwnedParameters:
    """Which parameters an optimizer trains, as long as they live: ids are used again."""

    def __init__(self) -> None:
        self._owned: dict[int, weakref.ref[Any]] = {}
        self._looked = False

    def __len__(self) -> int:
        return len(self._owned)

    def __contains__(self, parameter: Any) -> bool:
        reference = self._owned.get(id(parameter))
        return reference is not None and reference() is parameter

    def add(self, optimizer: Any) -> None:
        """Note the parameters of an optimizer."""
        for parameter in living_modules.owned(optimizer):
            if parameter not in self:
                key = id(parameter)
                self._owned[key] = weakref.ref(parameter, functools.partial(self._died, key))

    def find(self) -> None:
        """Where no optimizer is known, look once for those that were made before we listened."""
        if not self._owned and not self._looked:
            self._looked = True
            for optimizer in held_optimizers():
                self.add(optimizer)

    def _died(self, key: int, reference: weakref.ref[Any]) -> None:
        if self._owned.get(key) is reference:
            del self._owned[key]
