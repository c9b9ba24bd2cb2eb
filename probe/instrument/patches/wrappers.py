# cython: language_level=3, annotation_typing=True, freethreading_compatible=True
"""The wrappers that dynamo need not see through, or not before it traces: they are compiled.

``aim.target`` is None once nobody listens; then a wrapper only calls the original.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from operator import itemgetter
from types import MethodType
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ...ring import pure as cython

if not cython.compiled:
    address = id

    def version_of(names: dict[str, Any]) -> int:
        return 0


if TYPE_CHECKING:
    from ..signal_handler import Receiver
    from ..state_machine import Machine

Call = Callable[..., Any]

_ASKED = 8  # parameters of a model that may leave some unused
FLAG = "_is_compiling_flag"  # of torch.compiler


class Aim:
    """What a wrapper looks at first."""

    def __init__(self) -> None:
        self.target: Receiver | None = None  # None: pass through
        self.reduces = False  # the backward of the last forward of DDP reduces gradients
        self.traced = False  # the backward that runs is of a graph that torch traces
        self.undo: list[Callable[[], object]] = []
        self.missing: list[str] = []  # private names of torch that are not there


class Listener:
    """Hears the calls of one module. Neither raises."""

    def begin(self, args: Any) -> None:
        """It is called with these positional arguments, of which it is the first."""

    def end(self, output: Any) -> None:
        """It returned this; or raised, then None."""


class Forward(Listener):
    """Tells a machine of the calls of a root module."""

    def __init__(self, machine: Machine, root: int):
        self._machine, self._root = machine, root

    def begin(self, args: Any) -> None:
        self._machine.forward_begin(self._root)

    def end(self, output: Any) -> None:
        self._machine.forward_end(self._root)


def around_data(original: Call, aim: Aim) -> Call:
    """Of ``_BaseDataLoaderIter.__next__``."""

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 (the name it replaces)
        target = aim.target
        if target is None:
            return original(self)
        token, got = None, False
        try:
            token = target.data_begin()
            item = original(self)
            got = True
            return item
        finally:
            if token:
                target.data_end(token, got)

    return __next__


class Called:
    """Stands where a class has ``__call__``; ``heard`` has who listens to which module, by id.

    Who pickles a class by value (cloudpickle) takes what it stands for, nothing of ours.
    """

    def __init__(self, owner: Any, heard: dict[int, Any]):
        self._own = vars(owner).get("__call__")
        self._base: Any = next(kind for kind in owner.__mro__[1:] if "__call__" in vars(kind))
        self._heard = heard
        # Finding one among several takes a microsecond when caches are cold.
        self._id, self._alone = 0, None

    def settle(self) -> None:
        """``heard`` has changed."""
        self._id = 0  # until the other one is right
        self._alone = next(iter(self._heard.values())) if len(self._heard) == 1 else None
        self._id = next(iter(self._heard)) if self._alone is not None else 0

    @property
    def __wrapped__(self) -> Call:
        # An inherited one may have been replaced since: tracers do that.
        original: Call = self._base.__call__ if self._own is None else self._own
        return original

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __get__(self, module: Any, owner: Any) -> Any:
        return self if module is None else MethodType(self, module)

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.__wrapped__,),)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        original = self._base.__call__ if self._own is None else self._own
        listener: Listener | None = self._alone
        if listener is None or address(args[0]) != self._id:
            listener = self._heard.get(id(args[0]))
        if listener is None:
            return original(*args, **kwargs)
        output = None
        listener.begin(args)
        try:
            output = original(*args, **kwargs)
            return output
        finally:
            listener.end(output)


class Tracing:
    """What ``torch.compiler.is_compiling()`` returns, which takes many times as long to call."""

    def __init__(self) -> None:
        self._names = vars(sys.modules["torch.compiler"])
        self._ask: Any = None if FLAG in self._names else self._names["is_compiling"]
        self._version, self._said = 0, False

    def now(self) -> bool:
        """Whether torch traces."""
        if self._ask is not None:
            return bool(self._ask())
        version = version_of(self._names)
        if version != self._version or version == 0:
            self._version, self._said = version, bool(self._names[FLAG])
        return self._said


def around_backward(original: Call, aim: Aim) -> Call:
    """Of ``torch.autograd._engine_run_backward``. A traced graph's is none of the training's."""
    tracing = Tracing()

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        target = aim.target
        if target is None:
            return original(*args, **kwargs)
        if tracing.now():
            return traced(args, kwargs)
        token, done = None, False
        try:
            token = target.backward_begin()
            gradients = original(*args, **kwargs)
            done = True
            return gradients
        finally:
            if token:
                target.backward_end(token, done)

    def traced(args: Any, kwargs: Any) -> Any:
        before, aim.traced = aim.traced, True
        try:
            return original(*args, **kwargs)
        finally:
            aim.traced = before

    return run


def on_optimizer(aim: Aim) -> tuple[Call, Call]:
    """What is called before and after an optimizer's step."""

    def begins(optimizer: Any, args: Any, kwargs: Any) -> None:
        target = aim.target
        if target is None:
            return
        closure = False
        if kwargs or len(args) > 1:
            closure = callable(kwargs.get("closure") or (args[1] if len(args) > 1 else None))
        target.optimizer_begin(optimizer, closure)

    def ended(optimizer: Any, args: Any, kwargs: Any) -> None:
        target = aim.target
        if target is not None:
            target.optimizer_end(optimizer)

    return begins, ended


def around_ddp(original: Call, aim: Aim) -> Call:
    """Of DDP's ``_pre_forward``."""
    met = Met(aim)

    @functools.wraps(original)
    def _pre_forward(*args: Any, **kwargs: Any) -> Any:
        target = aim.target
        if target is not None:
            ddp = args[0]
            reduces = ddp.require_backward_grad_sync
            if target.reduces(ddp, reduces):
                aim.reduces = reduces
                met.again(ddp)
        return original(*args, **kwargs)

    return _pre_forward


class Met:
    """The DDP modules that trained."""

    def __init__(self, aim: Aim):
        self._aim = aim
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._reference: Any = None
        self._last = 0  # id of the last one while it lives: asking the set takes longer

    def again(self, ddp: Any) -> None:
        """This one; the first time the end of its backward is asked for."""
        if address(ddp) == self._last:
            return
        self._reference, self._last = weakref.ref(ddp, self._died), id(ddp)
        if ddp in self._modules:
            return
        self._modules.add(ddp)
        try:
            ask_before_reducing(ddp, self._aim)
        except Exception as error:  # another torch: the wait stays in backward
            self._aim.missing.append(f"the end of DDP's backward: {error}")

    def _died(self, reference: Any) -> None:
        if reference is self._reference:
            self._last = 0


def ask_before_reducing(module: Any, aim: Aim) -> None:
    """Tell when the backwards of a DDP module that reduce have computed all gradients.

    What a backward calls at its end is called in the order in which it was asked for. DDP asks
    when its last bucket is ready, and then waits for the collectives; so whoever asks before any
    one gradient is there comes first. That of the last parameter is usually the first; where some
    may have none, several are asked.
    """
    from torch.autograd import Variable
    from torch.autograd.graph import get_gradient_edge

    begun = asking(aim, Variable._execution_engine.queue_callback)
    trained = [one for one in module.parameters() if one.requires_grad]
    apart = -(-len(trained) // _ASKED) if module.find_unused_parameters else len(trained)
    for parameter in trained[::-1][::apart]:
        # Not a hook on the parameter, where others would find it.
        aim.undo.append(get_gradient_edge(parameter).node.register_prehook(begun).remove)


def asking(aim: Aim, ask: Callable[[Callable[[], None]], None]) -> Callable[[Any], None]:
    """What asks the engine to call ``computed`` at the end of a backward that reduces."""

    def computed() -> None:
        target = aim.target
        if target is not None:
            target.computed()

    def begun(_gradients: Any) -> None:
        if aim.reduces and not aim.traced and aim.target is not None:
            ask(computed)

    return begun
