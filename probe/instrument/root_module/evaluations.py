"""Which forwards are a training's, which an evaluation's, and which make labels or roll out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...ring.layout import Code
from .owned_parameters import OwnedParameters
from .root import Root
from .unseen_steps import UnseenSteps

if TYPE_CHECKING:
    from ..state_machine import PhaseStateMachine

FORWARD, EVAL = int(Code.FORWARD), int(Code.EVAL)
INFERENCE, NO_GRAD = int(Code.INFERENCE), int(Code.NO_GRAD)
_CALLERS = 32  # frames that are looked at: 0.1 µs each, at each call that is no function's


class Evaluations:
    """Asked by the machine where gradients are off, or a module that is called does not train."""

    def __init__(
        self,
        machine: PhaseStateMachine,
        roots: Mapping[int, Root],
        owned: OwnedParameters,
        unseen: UnseenSteps,
    ):
        """``roots`` by their ids, and what optimizers own, as they are when it is asked."""
        self._machine, self._roots, self._owned, self._unseen = machine, roots, owned, unseen
        self.meaning = 0  # the phase of forwards without gradients, where a framework tells it

    def with_gradients(self, module: Any) -> bool:
        """Whether a forward with gradients is an evaluation's, for its module does not train."""
        root = self._roots.get(id(module))
        if root is None or root.trains_in_eval_mode is not False:
            return False
        root.evaluates = not module.training
        self._machine.root_in_eval_mode = root.evaluates
        return root.evaluates

    def backward_follows(self) -> None:
        """What was taken for an evaluation is a training in eval mode."""
        for root in self._roots.values():
            if root.evaluates:
                root.trains_in_eval_mode, root.evaluates = True, False
        self._machine.root_in_eval_mode = False  # else each forward would be asked about again

    def without_gradients(self, module: Any) -> int:
        """What a root's forward without gradients is; NO_GRAD where the future has to tell.

        FORWARD: it trains all the same.
        """
        machine = self._machine
        root = self._roots.get(id(module))
        if root is None:
            return NO_GRAD
        if self.meaning:
            return self.meaning
        trained = self._is_trained(root, module)
        if trained and module.training and _in_autograd_function():
            return FORWARD  # its backward is the function's own, as that of adjoint methods
        before, root.step = root.step, machine.steps
        if before != machine.steps:
            root.each_step = machine.steps - before == 1 or not machine.forward_heard
            root.occasional = machine.steps - before > 1 and machine.steps > 0
        if trained:
            if not module.training:
                within = machine.loaded or machine.in_tail()  # a step; else after one
                return NO_GRAD if root.each_step and within else EVAL
            if not machine.forward_heard:
                root.rolls_out = True
            if machine.loaded or machine.in_tail():
                return NO_GRAD
            return INFERENCE if root.rolls_out else EVAL
        return EVAL if root.occasional and not module.training else NO_GRAD

    def _is_trained(self, root: Root, module: Any) -> bool:
        self._owned.find()
        if root.trained:
            return True
        if not self._owned:  # a loop that writes its parameters itself, or has not begun
            written = self._unseen.parameters()
            root.trained = any(p is w for p in module.parameters() for w in written)
            return root.trained or not (written or module.training)
        if root.owned != self._owned.changes:
            root.owned = self._owned.changes
            root.trained = any(p in self._owned for p in module.parameters())
        return root.trained


def _in_autograd_function() -> bool:
    """Whether an ``autograd.Function`` calls this: gradients are off in its forward."""
    apply = sys.modules["torch"].autograd.Function.apply.__func__.__code__
    frame = sys._getframe(1)
    for _ in range(_CALLERS):
        if frame.f_code is apply:
            return True
        if (caller := frame.f_back) is None:
            return False
        frame = caller
    return False
