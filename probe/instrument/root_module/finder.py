"""Finds the root modules of a training: those that are called, but by no other module.

They are heard when they are called (:mod:`discovery`), from the beginning, until a few steps have
brought none that is new; and again when an optimizer is made or steps for the first time, as of a
second training, and when a module is told to evaluate. Other modules of a root's class are heard
whenever they are called, because the ``__call__`` of that class stays replaced. Most averages of
the weights are such copies of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..patches.module_call import Listening
from ..patches.wrappers import Listener, RootListener
from . import living_modules
from .class_mates import ClassMates
from .discovery import Discovery
from .evaluations import Evaluations
from .held_optimizers import held_optimizers, says_its_steps
from .owned_parameters import OwnedParameters
from .root import Root
from .unseen_steps import UnseenSteps

if TYPE_CHECKING:
    from ..module_kinds.listeners import KindListeners
    from ..state_machine import PhaseStateMachine

# Steps without a new root, after which none is listened for; the second where an optimizer has not
# stepped yet, whose model may not have been called.
_QUIET, _QUIET_WAITING = 2, 100
_MOST_ROOTS = 256
_MOST_NAMES = 32  # of optimizers


class RootFinder:
    """Listens to root modules; notices steps that no optimizer reports."""

    def __init__(
        self,
        machine: PhaseStateMachine,
        models: Sequence[Any],
        optimizers: Sequence[Any],
        warn: Callable[[str], None],
        code: Callable[[str], int],
        listen_to_kinds: Callable[[Any], KindListeners] | None = None,
    ):
        """Listen to nothing until :meth:`start`.

        Args:
            machine: is told of calls.
            models: root modules that are known.
            optimizers: those that are known.
            warn: called with what went wrong.
            code: gives the ring's number of a name.
            listen_to_kinds: listens to the modules inside a root, where that was asked for.
        """
        self.origin = ""  # how the root was found, for run.json
        self.hash = ""
        self._machine, self._warn, self._code = machine, warn, code
        self._hearing = machine  # of calls
        self._listen_to_kinds = listen_to_kinds
        self._given = [model for model in models if self._is_module(model)]
        self._owned = OwnedParameters()
        self._waiting: set[int] = set()  # ids of optimizers that have not stepped yet
        self._made = 0, 0  # id and groups of parameters of the optimizer that was made last
        self._numbers: dict[str, int] = {}
        self._optimizers = list(optimizers)
        self.roots: dict[int, Root] = {}
        self._class_mates = ClassMates(self._hear)
        self._kinds: list[KindListeners] = []
        self.discovery = Discovery(machine, self._hear)
        self._quiet_from, self._widened = 0, False  # nothing new since that step; looked wider once
        self._unseen = UnseenSteps()
        self.evaluations = Evaluations(machine, self.roots, self._owned, self._unseen)
        self.late_steps = 0  # written by hand after an optimizer's
        self.compiles = False  # torch's compiler has run: it may have taken a step's hooks away

    # -- life ---------------------------------------------------------------------------

    def start(self) -> None:
        """Listen to the models that were passed, and for others."""
        machine = self._machine
        machine.finder = self
        machine.after_backward = self._after_backward
        machine.changed = self._changed
        machine.new_optimizer = self._new_optimizer
        machine.without_gradients = self.evaluations.without_gradients
        for optimizer in [*self._optimizers, *held_optimizers()]:
            self._owned.add(optimizer)
            if says_its_steps(type(optimizer)):
                self._waiting.add(id(optimizer))
        for model in self._given:
            self._listen(model)
        if self._given:
            self._identify("given", self._given)
        self._arm()

    def stop(self) -> None:
        """Leave torch and all classes as they were."""
        self._machine.finder = None
        self.discovery.disarm()
        for root in self.roots.values():
            root.listening.remove()
        for listeners in self._kinds:
            listeners.remove()
        self.roots.clear()
        self._kinds.clear()
        self._given, self._optimizers = [], []

    def forget(self) -> None:
        """The last step has been looked for."""
        self._unseen.forget()

    # -- what torch's patches tell; may raise --------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer exists: a training will begin."""
        self._machine.optimizer_made(optimizer)
        self._made = id(optimizer), len(optimizer.param_groups)
        self._owned.add(optimizer)
        self._waiting.add(id(optimizer))
        self._arm()

    def evaluation_begins(self) -> None:
        """A batch was loaded where gradients are off: what is called may not have been heard."""
        self._arm()

    def module_evaluates(self, module: Any) -> None:
        """``eval()`` was called on a module: it will be called itself."""
        root = self.roots.get(id(module))
        if root is None:
            if self._machine.may_be_root():
                self._arm()
        elif root.trains_in_eval_mode is False:
            self._machine.root_in_eval_mode = True

    def compiling(self, begins: bool) -> None:
        """Torch's compiler begins or ends."""
        self.compiles = True
        if begins:
            self.discovery.pause()
        else:
            self.discovery.resume()

    def step_closed(self) -> None:
        """After each step while new roots are listened for."""
        steps = self._machine.steps
        if not self.hash:
            self._identify_trained()
        for root in self.roots.values():
            root.step_closed()
        if not (self._machine.forward_heard or self._widened):
            self._widened, self._quiet_from = True, steps
            self.discovery.widen()
        if steps - self._quiet_from >= (_QUIET_WAITING if self._waiting else _QUIET):
            self._waiting.clear()
            self._machine.evaluates = False
            self._machine.every_step = False
            self.discovery.disarm()
            self.discovery.is_wide &= self._machine.forward_heard  # else to look again is in vain

    def listen_for(self, machine: PhaseStateMachine) -> None:
        """Tell ``machine`` of calls from now on, which tells threads apart."""
        self._hearing = machine
        for root in list(self.roots.values()):
            root.tell(machine, self._class_mates.hear)
        self.discovery.tell(machine)

    def note_on_steps(self) -> str:
        """One line of what is not known of the steps or of their time; else nothing."""
        if not self._machine.optimizer_seen and self._unseen.backwards and not self._unseen.steps:
            return "no optimizer was seen: steps are unknown"
        if self.compiles and self._unseen.steps and not self._machine.optimizer_seen:
            return (
                "steps were found by what they wrote: the time of the optimizer, compiled or "
                "written by hand, is in other"
            )
        if self.late_steps:
            return (
                f"no optimizer made {self.late_steps} of the steps: they were found by what they "
                "wrote; where such steps follow those of an optimizer, the first is missing"
            )
        return ""

    # -- inside -------------------------------------------------------------------------

    def _arm(self) -> None:
        self._quiet_from = self._machine.steps
        self._machine.every_step = True
        self.discovery.arm()

    def _is_module(self, model: Any) -> bool:
        if living_modules.is_module(model):
            return True
        self._warn(f"the model passed is no torch module but {type(model).__name__}")
        return False

    def _hear(self, module: Any) -> Listener | None:
        """A module is called from outside of all roots: the listener, if it is one from now on."""
        if self._is_heard(module):
            return None  # its own listener hears the call, or is below a later patch
        if not living_modules.has_parameters(module):
            return None  # a loss, a metric, a preprocessing
        if len(self.roots) >= _MOST_ROOTS:
            self._forget_dead()  # of a loop that makes a model at every step
            if len(self.roots) >= _MOST_ROOTS:
                return None
        listener = self._listen(module)
        self._quiet_from = self._machine.steps
        return listener

    def _forget_dead(self) -> None:
        for key, root in list(self.roots.items()):
            if root.listening.module() is None:
                del self.roots[key]

    def _is_heard(self, module: Any) -> bool:
        root = self.roots.get(id(module))
        return root is not None and root.listening.module() is module

    def _listen(self, module: Any) -> Listener | None:
        listener = RootListener(self._hearing, id(module), self._class_mates.hear)
        try:
            self.roots[id(module)] = Root(Listening(module, listener))
        except Exception as error:  # a class that does not let anything be set
            self._warn(f"calls of {type(module).__name__} are not seen: {error}")
            return None
        if "_orig_mod" in module._modules:  # compiled: the user may call what is inside, too
            inner = module._modules["_orig_mod"]
            if not self._is_heard(inner):
                self._listen(inner)
        if self._listen_to_kinds is not None and not self._kinds:
            self._kinds.append(self._listen_to_kinds(module))
        return listener

    def _new_optimizer(self, optimizer: Any) -> int:
        """An optimizer steps for the first time: returns the code of its name."""
        self._waiting.discard(id(optimizer))
        if self._made != (id(optimizer), len(optimizer.param_groups)):
            self._owned.add(optimizer)
        self._arm()
        kind = type(optimizer).__name__
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        many = sum(self._numbers.values()) > _MOST_NAMES  # as of a loop that makes one every step
        return self._code("optimizer/others" if many else f"optimizer/{kind} {number}")

    def _after_backward(self, outputs: Any, accumulated: bool) -> None:
        try:
            self._unseen.after_backward(outputs, accumulated)
        except Exception as error:  # of a kind of tensor that nobody thought of
            self._machine.after_backward = None
            self._warn(f"only optimizers end steps: {type(error).__name__}: {error}")

    def _changed(self) -> bool:
        # An optimizer that is known tells its steps itself, unless it is compiled.
        if not self._unseen.changed(by_gradient=self.compiles or not self._owned):
            return False
        late = self._machine.optimizer_seen  # more backwards than its steps ever took
        if not (self.compiles or late) and self._is_optimized():
            return False
        self.late_steps += late
        self._unseen.steps += 1
        return True

    def _is_optimized(self) -> bool:
        """Whether an optimizer owns the parameters that were written."""
        self._owned.find()
        return any(p in self._owned for p in self._unseen.parameters())

    def _identify_trained(self) -> None:
        """Which module the run is of: the root with most of the parameters that are trained."""
        living = [m for root in self.roots.values() if (m := root.listening.module()) is not None]
        trained = [(self._trained_parameters(module), module) for module in living]
        most = max((number for number, _ in trained), default=0)
        if most:
            module = next(module for number, module in trained if number == most)
            self._identify(f"found by its parameters: {type(module).__name__}", [module])

    def _trained_parameters(self, module: Any) -> int:
        return sum(p in self._owned or p.grad is not None for p in module.parameters())

    def _identify(self, how: str, modules: Sequence[Any]) -> None:
        self.origin = how
        try:
            self.hash = living_modules.parameters_hash(*modules)
        except Exception as error:  # parameters that have no shape yet
            self._warn(f"the parameters have no hash: {error}")
