"""Finds the root module, and steps of an optimizer that no hook reported.

Both are looked for after a backward, among the objects in memory: one garbage-collector scan, at
the first optimizer step or at the second backward.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..patches.module_call import Listening
from ..patches.wrappers import RootListener
from . import living_modules

if TYPE_CHECKING:
    from ..module_kinds.listeners import KindListeners
    from ..state_machine import PhaseStateMachine

_TRIES = 32  # backwards after which no parameter with a gradient is looked for any more
_THEFTS = 3


class RootFinder:
    """Finds and hooks the root module; watches one parameter for unseen steps."""

    def __init__(
        self,
        machine: PhaseStateMachine,
        model: Any,
        optimizers: Sequence[Any],
        warn: Callable[[str], None],
        listen_to_kinds: Callable[[Any], KindListeners] | None = None,
    ):
        """``listen_to_kinds`` listens to the modules inside a root, where that was asked for."""
        self._listen_to_kinds = listen_to_kinds
        self.origin = ""  # how the root was found, for run.json
        self.hash = ""
        self._machine, self._warn = machine, warn
        self._given = model
        self._optimizers = list(optimizers)
        self._roots: list[Listening] = []
        self._kinds: list[KindListeners] = []
        self._queue: list[Any] | None = None  # candidates not tried yet; None: not scanned
        self._settled = False
        self._backwards = 0
        self._tracked: weakref.ref[Any] | None = None
        self._version = 0
        self._stale = True  # the version may have changed by a step that was seen
        self._grad_rule = True
        self._by_grad = False
        self._thefts = 0

    def start(self) -> None:
        """Hook the model that was passed, if one was, and listen."""
        machine = self._machine
        machine.after_backward = self.after_backward
        machine.after_optimizer = self.after_optimizer
        machine.changed = self.changed
        if self._given is None:
            return
        if not living_modules.is_module(self._given):
            self._warn(f"the model passed is no torch module but {type(self._given).__name__}")
            self._given = None
            return
        self._hook(self._given, "given")

    def stop(self) -> None:
        """Remove all hooks."""
        self._unhook()
        self._given, self._queue, self._optimizers = None, [], []

    def after_optimizer(self, optimizer: Any) -> None:
        """An optimizer has stepped: the first one shows which parameters are trained."""
        if self._thefts < _THEFTS:
            self._thefts = self._thefts + 1 if self._by_grad else 0
            self._by_grad = False
            if self._thefts == _THEFTS:
                self._grad_rule = False
                self._warn("gradients are taken away between backwards: only optimizers end steps")
        if not self._settled and self._queue is None and self._given is None:
            self._scan(living_modules.owned(optimizer))
        self._stale = True

    def after_backward(self) -> None:
        """Try the next candidate if the last one never ran; find a parameter to look at."""
        self._backwards += 1
        if not self._settled:
            self._settle()
        tracked = self._tracked() if self._tracked is not None else None
        if tracked is None:
            tracked = self._track()
        if tracked is None:
            return
        if self._stale:
            self._version, self._stale = tracked._version, False
        if self._settled and self._machine.optimizer_seen and not self._thefts:
            # Nothing is left to find out: spare every later backward and step the call.
            self._machine.after_backward = self._machine.after_optimizer = None

    def changed(self) -> bool:
        """True if the parameters were written, or gradients dropped, since the backward."""
        parameter = self._tracked() if self._tracked is not None else None
        if parameter is None:
            return False
        if parameter._version != self._version:
            self._version = parameter._version
            # While optimizers report their steps the version is not followed.
            if self._machine.after_backward is not None:
                return True
        if self._grad_rule and parameter.grad is None:
            self._by_grad = True
            self._machine.after_backward = self.after_backward
            self._machine.after_optimizer = self.after_optimizer
            return True
        return False

    def _settle(self) -> None:
        machine = self._machine
        if machine.root_fired:
            self._settled = True
            self._queue = []
            return
        if self._backwards < 2 or not machine.alive:
            return
        if self._queue is None:
            if self._given is not None:
                self._queue = []
                for wrapper in living_modules.containers(self._given)[:2]:
                    self._hook(wrapper, f"given, called through {type(wrapper).__name__}")
                return
            optimizers = self._optimizers or living_modules.optimizers()
            owned = [p for optimizer in optimizers for p in living_modules.owned(optimizer)]
            self._scan([p for p in owned if p.grad is not None] or owned)
        else:
            self._try_next()

    def _scan(self, parameters: list[Any]) -> None:
        self._machine.root_fired = False
        self._queue = list(living_modules.likely_roots({id(p) for p in parameters}))
        self._choose(parameters)
        self._try_next()

    def _try_next(self) -> None:
        if self._given is None:
            self._unhook()
        if self._queue:
            module = self._queue.pop(0)
            self._hook(module, f"found by its parameters: {type(module).__name__}")
            return
        self._settled = True
        self._queue = []
        if self._given is None:
            self.origin = "not found"
        self._warn("no forward of the model was seen: forward is inferred")

    def _unhook(self) -> None:
        for root in self._roots:
            root.remove()
        for listeners in self._kinds:
            listeners.remove()
        self._roots.clear()
        self._kinds.clear()

    def _hook(self, module: Any, how: str) -> None:
        try:
            self._roots.append(Listening(module, RootListener(self._machine, id(module))))
        except Exception as error:  # a class that does not let anything be set
            self._warn(f"calls of {type(module).__name__} are not seen: {error}")
            return
        if self._listen_to_kinds is not None and not self._kinds:
            self._kinds.append(self._listen_to_kinds(module))
        self.origin = how
        try:
            self.hash = living_modules.parameters_hash(module)
        except Exception as error:  # parameters that have no shape yet
            self._warn(f"the parameters have no hash: {error}")

    def _track(self) -> Any:
        if self._backwards > _TRIES:
            return None
        return self._choose(
            [
                *(p for optimizer in self._optimizers for p in living_modules.owned(optimizer)),
                *(
                    p
                    for root in self._roots[:1]
                    if (m := root.module()) is not None
                    for p in m.parameters()
                ),
            ]
        )

    def _choose(self, parameters: list[Any]) -> Any:
        for parameter in parameters:
            if parameter.is_leaf and parameter.grad is not None:
                self._tracked = weakref.ref(parameter)
                return parameter
        return None
