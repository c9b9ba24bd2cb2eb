"""The parameters of the optimizers that are known."""

from __future__ import annotations

import weakref
from typing import Any

from . import living_modules
from .held_optimizers import held_optimizers

_FEW = 1024  # entries, before those of dead parameters are looked for


class OwnedParameters:
    """Which parameters an optimizer trains, as long as they live: ids are used again.

    True as soon as an optimizer is known; ``changes`` says whether another one came since.
    """

    def __init__(self) -> None:
        self.changes = 0
        # Without callbacks, which cost more than all else where optimizers are made at every step.
        self._owned: dict[int, weakref.ref[Any]] = {}
        self._most = _FEW
        self._looked = False

    def __bool__(self) -> bool:
        return bool(self._owned)

    def __contains__(self, parameter: Any) -> bool:
        reference = self._owned.get(id(parameter))
        return reference is not None and reference() is parameter

    def add(self, optimizer: Any) -> None:
        """Note the parameters of an optimizer."""
        owned, before = self._owned, self.changes
        for parameter in living_modules.owned(optimizer):
            reference = owned.get(id(parameter))
            if reference is None or reference() is not parameter:
                owned[id(parameter)] = weakref.ref(parameter)
                self.changes = before + 1
        if len(owned) > self._most:
            self._owned = {key: kept for key, kept in owned.items() if kept() is not None}
            self._most = max(_FEW, 2 * len(self._owned))

    def find(self) -> None:
        """Where no optimizer is known, look once for those that were made before we listened."""
        if not self._owned and not self._looked:
            self._looked = True
            for optimizer in held_optimizers():
                self.add(optimizer)
