"""Hears which modules are called by no other module, for as long as that is worth its cost.

``nn.Module.__call__`` is replaced meanwhile, which costs each call of a module inside another one
a fraction of a microsecond. While torch compiles, its own is back in place: what dynamo traces must
not know of us. A class may have a call of its own that never leads to torch's (gpytorch's do):
where steps are made and no forward is heard, those classes' calls are replaced, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

from ..patches.module_call import wrapper_code
from ..patches.patching import replace
from ..patches.wrappers import DiscoveringCall, Listener
from ..state_machine import PhaseStateMachine

_KEPT = "unpatched_nn_module_call"  # dynamo looks when it is imported


class Discovery:
    """Armed or not; ``hear`` is called with each module that is called from outside of modules."""

    _installed: Discovery | None = None  # the one of this process that has replaced the call

    def __init__(self, machine: PhaseStateMachine, hear: Callable[[Any], Listener | None]):
        """Be disarmed until :meth:`arm`."""
        self._machine, self._hear = machine, hear
        self._undo: Callable[[], bool] | None = None
        self._original: Any = None
        self.is_wide = False
        self._undo_own: list[Callable[[], bool]] = []  # of calls that classes have of their own
        self._armed = False
        self._pauses = 0

    def arm(self) -> None:
        """Hear modules from now on, and no other one of this process any more."""
        self._armed = True
        if self._undo is not None or self._pauses:
            return
        if Discovery._installed is not None:
            Discovery._installed.disarm()
        self._original = nn.Module.__call__
        while isinstance(self._original, DiscoveringCall):  # left below a later patch, now gone
            self._original = self._original.__wrapped__
        call = DiscoveringCall(self._original, self._machine, self._heard)
        self._undo = replace(nn.Module, "__call__", call)
        Discovery._installed = self
        if self.is_wide:
            for kind in _with_own_calls():
                call = DiscoveringCall(vars(kind)["__call__"], self._machine, self._heard)
                with contextlib.suppress(Exception):  # a class that lets nothing be set
                    self._undo_own.append(replace(kind, "__call__", call))

    def widen(self) -> None:
        """Hear modules, too, whose class has a call of its own."""
        self.is_wide = True
        self._put_back()
        if self._armed:
            self.arm()

    def disarm(self) -> None:
        """Put torch's own call back."""
        self._armed = False
        self._put_back()

    def tell(self, machine: PhaseStateMachine) -> None:
        """Tell another machine from now on."""
        armed = self._armed
        self.disarm()
        self._machine = machine
        if armed:
            self.arm()

    def pause(self) -> None:
        """Torch begins to compile."""
        self._pauses += 1
        self._put_back()

    def resume(self) -> None:
        """Torch has compiled."""
        self._pauses = max(0, self._pauses - 1)
        if self._armed:
            self.arm()

    def on_dynamo(self, utils: ModuleType) -> None:
        """Dynamo has just been imported: what it keeps for torch's own call is torch's own."""
        if self._undo is not None and isinstance(getattr(utils, _KEPT, None), DiscoveringCall):
            setattr(utils, _KEPT, self._original)

    def _put_back(self) -> None:
        if self._undo is not None and self._undo():
            self._undo = Discovery._installed = None
        for undo in self._undo_own:
            undo()  # below a later patch it stays, as a pass-through
        self._undo_own.clear()

    def _heard(self, module: Any) -> Listener | None:
        return self._hear(module) if self._armed else None


def _with_own_calls() -> Iterator[type]:
    """Classes of modules with a call of their own, those of torch and those of ours left out."""
    ours, seen, left = wrapper_code(), set(), [nn.Module]
    while left:
        for kind in left.pop().__subclasses__():
            if kind in seen:
                continue
            seen.add(kind)
            left.append(kind)
            call = vars(kind).get("__call__")
            is_own = isinstance(call, FunctionType) and call.__code__ is not ours
            if is_own and not str(kind.__module__).startswith("torch."):
                yield kind
