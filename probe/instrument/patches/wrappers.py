# cython: language_level=3
"""The wrappers that dynamo need not see through: they are compiled where there is a C compiler.

``hooks.machine`` is None once no machine is attached; then a wrapper only calls the original.
"""

from __future__ import annotations

import contextlib
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

from ...ring.stale_check import refuse_stale
from ..batch_sizes import position_of, remember

if cython.compiled:
    from cython.cimports.probe.ring.native import BUILT_FROM, address, get_ident, version_of

    refuse_stale(__file__, BUILT_FROM.decode())
else:
    from threading import get_ident

    address = id

    def version_of(names: dict[str, Any]) -> int:
        """Plain Python cannot read a dictionary's version: 0 for every one."""
        return 0


if TYPE_CHECKING:
    from ..state_machine import PhaseStateMachine

Call = Callable[..., Any]

_ASKED = 8  # parameters of a model that may leave some unused
FLAG = "_is_compiling_flag"  # of torch.compiler


@cython.cclass
class BatchCounter:
    """How many samples each batch of a DataLoader holds.

    Batches of one iterator in a row are counted here: to ask it takes microseconds.
    """

    cython.declare(_iterator=cython.ulonglong, _size=cython.longlong, _left=cython.longlong)

    def __init__(self) -> None:
        self._iterator = 0  # the id of the last one; 0: it has to be asked
        self._size = self._left = 0

    def begin(self, iterator: Any, loader: Any) -> None:
        """An iteration over ``loader`` begins."""
        remember(iterator, loader)
        self._iterator = 0  # what ended may have had the same id

    @cython.ccall
    def samples(self, iterator: Any) -> cython.longlong:
        """Samples of the batch that ``iterator`` gave last; 0 if that is not known."""
        if address(iterator) != self._iterator:
            return self._ask(iterator)
        if self._left < 0:
            return self._size  # of an epoch without a known end
        given: cython.longlong = min(self._size, self._left)
        self._left -= given
        return given

    @cython.final
    @cython.cfunc
    def _ask(self, iterator: Any) -> cython.longlong:
        position = position_of(iterator)
        self._size, self._left = position.size, position.left
        self._iterator = id(iterator) if position.counts else 0
        last: cython.longlong = position.last
        return last


@cython.cclass
class HookTarget:
    """The machine that the wrappers signal, and the state that DDP's wrappers share."""

    machine: PhaseStateMachine | None = cython.declare(object, visibility="public")
    reduces: bool = cython.declare(cython.bint, visibility="public")
    traced: bool = cython.declare(cython.bint, visibility="public")
    undo: list[Callable[[], object]] = cython.declare(list, visibility="public")
    begun: int = cython.declare(cython.ulong, visibility="public")
    batches: BatchCounter = cython.declare(BatchCounter, visibility="public")
    compiling: list[Any] = cython.declare(list, visibility="public")

    def __init__(self) -> None:
        self.machine = None  # None: pass through
        self.reduces = False  # the backward of the last forward of DDP reduces gradients
        self.traced = False  # the backward that runs is of a graph that torch traces
        self.begun = 0  # the thread whose backward has been noted and not reached the engine
        self.batches = BatchCounter()
        self.undo = []
        self.compiling = []  # tokens of the compilations that go on


@cython.cclass
class Listener:
    """Is called when one module's call begins and ends. Neither method raises."""

    @cython.ccall
    def begin(self, args: Any) -> Any:
        """Note a call with these positional arguments, the module first."""

    @cython.ccall
    def end(self, output: Any) -> Any:
        """Note what the call returned; None if it raised."""


@cython.cclass
class RootListener(Listener):
    """Tells a machine of the calls of a root module."""

    machine: PhaseStateMachine = cython.declare(object, visibility="public")
    hear: Callable[[Any], Listener | None] | None = cython.declare(object, visibility="public")
    cython.declare(_begin=object, _end=object, _root=object)

    def __init__(
        self,
        machine: PhaseStateMachine,
        root: Any,
        hear: Callable[[Any], Listener | None] | None = None,
    ):
        """Tell ``machine`` of the calls of the module with the id ``root``.

        ``hear`` gives the listener of another root module of the same class, or None.
        """
        self.machine, self.hear = machine, hear
        self._begin, self._end, self._root = machine.forward_begin, machine.forward_end, root

    @cython.ccall
    def begin(self, args: Any) -> Any:
        self._begin(self._root, args[0])

    @cython.ccall
    def end(self, output: Any) -> Any:
        self._end(self._root)


@cython.cclass
class TwoListeners(Listener):
    """Two listeners of one module as one."""

    first: Listener = cython.declare(Listener, visibility="public")
    second: Listener = cython.declare(Listener, visibility="public")

    def __init__(self, first: Listener, second: Listener):
        self.first, self.second = first, second

    @cython.ccall
    def begin(self, args: Any) -> Any:
        self.first.begin(args)
        self.second.begin(args)

    @cython.ccall
    def end(self, output: Any) -> Any:
        self.second.end(output)
        self.first.end(output)


def root_listener(listener: Listener) -> RootListener | None:
    """The listener of a root module among those of one module."""
    if isinstance(listener, TwoListeners):
        return root_listener(listener.first) or root_listener(listener.second)
    return listener if isinstance(listener, RootListener) else None


def without(listeners: Listener | None, listener: Listener) -> Listener | None:
    """What is left of the listeners of one module if one of them goes."""
    if isinstance(listeners, TwoListeners):
        first, second = without(listeners.first, listener), without(listeners.second, listener)
        return TwoListeners(first, second) if first and second else first or second
    return None if listeners is listener else listeners


def around_data(original: Call, hooks: HookTarget) -> Call:
    """Wrap ``_BaseDataLoaderIter.__next__``."""

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 (the name it replaces)
        machine = hooks.machine
        if machine is None:
            return original(self)
        token, got = None, False
        try:
            token = machine.data_begin()
            item = original(self)
            got = True
            return item
        finally:
            if token:
                machine.data_end(token, got, hooks.batches.samples(self) if got else 0)

    return __next__


@cython.cclass
class CallWrapper:
    """Stands where a class has ``__call__``; calls the listener of the module that is called.

    Where the class has a root module, its other modules are offered to the finder of roots when
    they are called: a copy of the weights, for example, that is evaluated after each epoch.

    Pickling the class by value (cloudpickle) takes the original, without this wrapper.
    """

    cython.declare(_own=object, _base=object, _listeners=dict)
    cython.declare(_id=cython.ulonglong, _only=Listener, _machine=object, _hear=object)
    cython.declare(_running=cython.int)

    def __init__(self, owner: Any, listeners: dict[int, Any]):
        """Wrap the ``__call__`` of the class ``owner``; ``listeners`` are kept by modules' ids."""
        self._own = vars(owner).get("__call__")
        self._base: Any = next(kind for kind in owner.__mro__[1:] if "__call__" in vars(kind))
        self._listeners = listeners
        # Finding one listener among several takes a microsecond when caches are cold.
        self._id, self._only = 0, None
        self._machine: Any = None
        self._hear: Any = None  # None: no listener is of a root module
        self._running = 0  # calls that are listened to: what they call is no root

    def settle(self) -> None:
        """Look at ``listeners`` again: they have changed."""
        self._id = 0  # until the other one is right
        self._only = next(iter(self._listeners.values())) if len(self._listeners) == 1 else None
        self._id = next(iter(self._listeners)) if self._only is not None else 0
        roots = filter(None, map(root_listener, self._listeners.values()))
        root = next(roots, None)
        self._hear = None
        if root is not None:
            self._machine, self._hear = root.machine, root.hear

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
        listener: Listener | None = self._only
        if listener is None or address(args[0]) != self._id:
            listener = self._listeners.get(id(args[0]))
            may_be_other = listener is None and self._hear is not None and self._running == 0
            if may_be_other and self._machine.may_be_root():
                listener = self._hear(args[0])
        if listener is None:
            return original(*args, **kwargs)
        output = None
        listener.begin(args)
        self._running += 1
        try:
            output = original(*args, **kwargs)
            return output
        finally:
            self._running -= 1
            listener.end(output)


@cython.cclass
class DiscoveringCall:
    """Stands for ``nn.Module.__call__`` while root modules are looked for that no argument named.

    A module that is called by no other module is a root; ``hear`` says whether to listen to it.
    """

    cython.declare(_original=object, _machine=object, _hear=object)

    def __init__(
        self, original: Call, machine: PhaseStateMachine, hear: Callable[[Any], Listener | None]
    ):
        """``hear`` gives the listener of a module that is called for the first time, or None."""
        self._original, self._machine, self._hear = original, machine, hear

    @property
    def __wrapped__(self) -> Call:
        return self._original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __get__(self, module: Any, owner: Any) -> Any:
        return self if module is None else MethodType(self, module)

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self._original,),)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._machine.may_be_root():
            return self._original(*args, **kwargs)
        listener: Listener | None = self._hear(args[0])
        if listener is None:
            return self._original(*args, **kwargs)
        output = None
        listener.begin(args)
        try:
            output = self._original(*args, **kwargs)
            return output
        finally:
            listener.end(output)


@cython.cclass
class TracingFlag:
    """What ``torch.compiler.is_compiling()`` returns, which takes many times as long to call."""

    cython.declare(_names=dict, _ask=object, _version=cython.ulonglong, _value=cython.bint)

    def __init__(self) -> None:
        self._names = vars(sys.modules["torch.compiler"])
        self._ask: Any = None if FLAG in self._names else self._names["is_compiling"]
        self._version, self._value = 0, False

    @cython.cfunc
    def is_set(self) -> cython.bint:
        """Whether torch traces."""
        if self._ask is not None:
            return bool(self._ask())
        version: cython.ulonglong = version_of(self._names)
        if version != self._version or version == 0:
            self._version, self._value = version, bool(self._names[FLAG])
        return self._value


def around_backward(original: Call, hooks: HookTarget) -> Call:
    """Wrap ``torch.autograd._engine_run_backward``; a graph that torch traces is not training."""
    tracing = TracingFlag()

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        machine = hooks.machine
        if machine is None:
            return original(*args, **kwargs)
        if hooks.begun and hooks.begun == get_ident():
            hooks.begun = 0
            return original(*args, **kwargs)
        if tracing.is_set():
            return traced(args, kwargs)
        token, done = None, False
        try:
            token = machine.backward_begin(kwargs.get("accumulate_grad", True))
            gradients = original(*args, **kwargs)
            done = True
            return gradients
        finally:
            if token:
                machine.backward_end(token, done, args[0] if args else None)

    def traced(args: Any, kwargs: Any) -> Any:
        before, hooks.traced = hooks.traced, True
        try:
            return original(*args, **kwargs)
        finally:
            hooks.traced = before

    return run


def around_tensor_backward(original: Call, hooks: HookTarget) -> Call:
    """Wrap ``Tensor.backward``: what it does before the engine runs belongs to the backward."""
    return _around_call(original, hooks, True)


def around_gradients(original: Call, hooks: HookTarget) -> Call:
    """Wrap ``torch.autograd.grad``, whose gradients are returned."""
    return _around_call(original, hooks, False)


def _around_call(original: Call, hooks: HookTarget, accumulates: bool) -> Call:
    tracing = TracingFlag()

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        machine = hooks.machine
        if machine is None or tracing.is_set():
            return original(*args, **kwargs)
        token, done = None, False
        try:
            token = machine.backward_begin(accumulates)
            hooks.begun = get_ident() if token is True else 0
            result = original(*args, **kwargs)
            done = True
            return result
        finally:
            hooks.begun = 0
            if token:
                machine.backward_end(token, done, args[0] if args else None)

    return backward


def on_optimizer(hooks: HookTarget) -> tuple[Call, Call]:
    """Make the hooks that torch calls before and after an optimizer's step."""

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        machine = hooks.machine
        if machine is None:
            return
        closure = False
        if kwargs or len(args) > 1:
            closure = callable(kwargs.get("closure") or (args[1] if len(args) > 1 else None))
        machine.optimizer_begin(optimizer, closure)

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        machine = hooks.machine
        if machine is not None:
            machine.optimizer_end(optimizer)

    return before_step, after_step


def around_ddp(original: Call, hooks: HookTarget) -> Call:
    """Wrap DDP's ``_pre_forward``."""
    seen = SeenDdp(hooks)

    @functools.wraps(original)
    def _pre_forward(*args: Any, **kwargs: Any) -> Any:
        machine = hooks.machine
        if machine is not None:
            ddp = args[0]
            reduces = ddp.require_backward_grad_sync
            if machine.reduces(ddp, reduces):
                hooks.reduces = reduces
                seen.add(ddp)
        return original(*args, **kwargs)

    return _pre_forward


@cython.cclass
class SeenDdp:
    """The DDP modules that trained."""

    cython.declare(_hooks=HookTarget, _modules=object, _reference=object, _last=cython.ulonglong)

    def __init__(self, hooks: HookTarget):
        self._hooks = hooks
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._reference: Any = None
        self._last = 0  # id of the last one while it lives: asking the set takes longer

    @cython.cfunc
    def add(self, ddp: Any) -> Any:
        """Note a module; the first time, ask for the end of its backward."""
        if address(ddp) == self._last:
            return
        self._reference, self._last = weakref.ref(ddp, self._died), id(ddp)
        if ddp in self._modules:
            return
        self._modules.add(ddp)
        with contextlib.suppress(Exception):  # another torch: the wait stays in backward
            ask_before_reducing(ddp, self._hooks)

    def _died(self, reference: Any) -> None:
        if reference is self._reference:
            self._last = 0


def ask_before_reducing(module: Any, hooks: HookTarget) -> None:
    """Tell when the backwards of a DDP module that reduce have computed all gradients.

    Callbacks at the end of a backward run in the order in which they were queued. DDP queues its
    own when its last bucket is ready, and that one waits for the collectives; so a callback that is
    queued before any gradient exists comes first. The gradient of the last parameter is usually
    the first; where some may have none, several parameters are asked.
    """
    from torch.autograd import Variable
    from torch.autograd.graph import get_gradient_edge

    prehook = asking(hooks, Variable._execution_engine.queue_callback)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    apart = -(-len(trained) // _ASKED) if module.find_unused_parameters else len(trained)
    for parameter in trained[::-1][::apart]:
        # Not a hook on the parameter, where others would find it.
        hooks.undo.append(get_gradient_edge(parameter).node.register_prehook(prehook).remove)


def asking(hooks: HookTarget, ask: Callable[[Callable[[], None]], None]) -> Callable[[Any], None]:
    """Make a hook that asks the engine to call ``computed`` after a backward that reduces."""

    def computed() -> None:
        machine = hooks.machine
        if machine is not None:
            machine.computed()

    def prehook(_gradients: Any) -> None:
        if hooks.reduces and not hooks.traced and hooks.machine is not None:
            ask(computed)

    return prehook
