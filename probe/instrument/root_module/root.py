"""A module that is listened to, for no other module calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..patches.module_call import Listening
from ..patches.wrappers import Listener, RootListener

if TYPE_CHECKING:
    from ..state_machine import PhaseStateMachine


class Root:
    """Who hears of the module's calls, and when it was called without gradients."""

    __slots__ = (
        "each_step",
        "evaluates",
        "listening",
        "occasional",
        "owned",
        "rolls_out",
        "step",
        "trained",
        "trains_in_eval_mode",
    )

    def __init__(self, listening: Listening):
        """``listening`` has begun."""
        self.listening = listening
        self.trained = False  # its parameters are an optimizer's
        self.owned = -1  # changes of what optimizers own when that was last looked at
        self.rolls_out = False  # called without gradients before it was trained
        self.step = -2  # in which it was last called without gradients
        self.each_step = False  # it was in the one before that, too
        self.occasional = False  # it was in none of the steps just before
        self.evaluates = False  # a forward with gradients was taken for an evaluation's
        self.trains_in_eval_mode: bool | None = None  # None: no step has closed since

    def step_closed(self) -> None:
        """Note once in which mode the module trains."""
        module = self.listening.module()
        if self.trains_in_eval_mode is None and module is not None:
            self.trains_in_eval_mode = not module.training

    def tell(self, machine: PhaseStateMachine, hear: Callable[[Any], Listener | None]) -> None:
        """Tell ``machine`` of its calls from now on, ``hear`` of those of its class's others."""
        module, before = self.listening.module(), self.listening
        if module is not None:
            self.listening = Listening(module, RootListener(machine, id(module), hear))
            before.remove()
