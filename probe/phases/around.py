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

if TYPE_CHECKING:
    from .machine import Machine
    from .receiver import Receiver

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
        listener: Listener | None = self._heard.get(id(args[0]))
        if listener is None:
            return original(*args, **kwargs)
        output = None
        listener.begin(args)
        try:
            output = original(*args, **kwargs)
            return output
        finally:
            listener.end(output)


def around_backward(original: Call, aim: Aim) -> Call:
    """Of ``torch.autograd._engine_run_backward``. A traced graph's is none of the training's."""
    # What torch.compiler.is_compiling returns, which takes many times as long to call.
    compiler = vars(sys.modules["torch.compiler"])
    is_compiling = None if FLAG in compiler else compiler["is_compiling"]

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        target = aim.target
        if target is None:
            return original(*args, **kwargs)
        if compiler[FLAG] if is_compiling is None else is_compiling():
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
    from torch import is_grad_enabled

    met: weakref.WeakSet[Any] = weakref.WeakSet()
    last: Callable[[], Any] = weakref.ref(met)  # asking the set takes longer

    @functools.wraps(original)
    def _pre_forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal last
        target = aim.target
        if target is not None and is_grad_enabled():
            ddp = args[0]
            aim.reduces = ddp.require_backward_grad_sync
            if last() is not ddp:
                last = weakref.ref(ddp)
                if ddp not in met:
                    met.add(ddp)
                    try:
                        ask_before_reducing(ddp, aim)
                    except Exception as error:  # another torch: the wait stays in backward
                        aim.missing.append(f"the end of DDP's backward: {error}")
            target.reduces(ddp, aim.reduces)
        return original(*args, **kwargs)

    return _pre_forward


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
