# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""What the training is doing now: a few flags, one current phase, marks at the edges.

There is no stack of automatic phases. Frameworks raise out of forwards, call hooks
twice or not at all; a flag that is set absolutely recovers at the next signal, a
stack would stay unbalanced. Signals call ``x_begin`` and, if it returned something
true, ``x_end`` with that. None of them raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ..ring import pure as cython

from ..ring.layout import Code, Record
from .marks import Marks

if not cython.compiled:
    from threading import get_ident
    from time import monotonic_ns

if TYPE_CHECKING:
    from ..ring.writer import RingWriter
    from .lanes import Lanes

COMPILED = bool(cython.compiled)

# Plain ints: an IntEnum member costs a lookup and a slower comparison at every edge.
STEP, SYNC = int(Record.STEP), int(Record.SYNC)
DATA, FORWARD, BACKWARD = int(Code.DATA), int(Code.FORWARD), int(Code.BACKWARD)
RECOMPUTE, COMMUNICATION = int(Code.RECOMPUTE), int(Code.COMMUNICATION)
OPTIMIZER, EVAL, OTHER = int(Code.OPTIMIZER), int(Code.EVAL), int(Code.OTHER)
PRE, TAIL = int(Code.PRE), int(Code.TAIL)


class Machine(Marks):
    """Turns the signals of one training thread into marks of its ring."""

    # More attributes than CPython lets instances share the keys of: a dict would be slower.
    __slots__ = (
        "_backward", "_chores", "_chores_due_ns", "_closure", "_communication", "_forward",
        "_fused", "_idle", "_kept", "_loading", "_optimizing", "_pending", "_recompute", "_root",
        "_stepped", "_unstepped", "_warn", "_wrapped", "after_backward", "after_optimizer",
        "alive", "changed", "grad_enabled", "lanes", "micro", "on_reducer", "optimizer_seen",
        "per_reduction", "rest", "root_fired", "steps", "thread",
    )  # fmt: skip

    def __init__(
        self, ring: RingWriter, lanes: Lanes, *, warn: Callable[[str], None],
        chores: Callable[[], int],
    ):
        """Hear nothing yet.

        Args:
            ring: where marks are written.
            lanes: rings of the other threads.
            warn: called with what went wrong.
            chores: called after a step closed; returns the monotonic time in ns before
                which it need not be called again.
        """
        super().__init__(ring)
        self.thread = get_ident()  # 0, which no thread has, once nothing is recorded
        self.alive = False
        self.lanes = lanes
        self.steps = 0
        self.micro = 0  # backwards since the last step closed
        self.per_reduction = 0  # forwards of DDP for one that reduces
        self.root_fired = False  # a forward of a hooked root was seen since the last look
        self.optimizer_seen = False
        self.grad_enabled: Callable[[], bool] = bool  # torch's, once torch is there
        self.changed: Callable[[], bool] = bool  # parameters changed since the last backward
        self.after_backward: Callable[[], None] | None = None
        self.after_optimizer: Callable[[Any], None] | None = None
        self.rest: Callable[[], None] | None = None  # before the next step, where asked for
        self.on_reducer: Callable[[Any], None] | None = None  # told of the first forward of DDP
        self._warn, self._chores = warn, chores
        self._chores_due_ns = 0
        self._kept = 0  # forwards of DDP since the last that reduces
        self._idle = OTHER  # the phase when none of the flags below is set
        self._backward = self._recompute = self._communication = self._loading = False
        self._forward = 0  # FORWARD or EVAL
        self._root = 0  # id of the module whose forward set it
        self._optimizing = 0  # id of the outermost optimizer that steps
        self._closure = self._wrapped = self._fused = False
        self._pending = False  # an optimizer has stepped; the step closes at the next signal
        self._unstepped = False  # a backward, and no optimizer since
        self._stepped: set[int] = set()

    def base(self) -> int:
        """The phase that the flags say."""
        if self._communication:
            return COMMUNICATION
        if self._recompute:
            return RECOMPUTE
        if self._backward:
            return BACKWARD
        if self._loading:
            return DATA
        if self._forward:
            return self._forward
        if self._optimizing and self._idle == OTHER:
            return OPTIMIZER
        return self._idle

    def start(self) -> None:
        """Begin to record, with the first mark."""
        self.alive = True
        self.mark(OTHER)

    def stop(self) -> None:
        """Record nothing any more."""
        self.alive = False
        self.thread = 0

    def fail(self, error: BaseException) -> None:
        """Stop recording for good: whatever is wrong is ours, not the training's."""
        self.stop()
        self._warn(f"phases are no longer recorded: {type(error).__name__}: {error}")

    def close_step(self) -> None:
        """Write the step's end; it belongs to the step before the signal that found it."""
        self._pending = self._unstepped = False
        self._stepped.clear()
        self._slots.write(STEP, min(self.micro, 0xFFFF), self.steps)
        self.steps += 1
        self.micro = 0
        if monotonic_ns() >= self._chores_due_ns:
            self._chores_due_ns = self._chores()
        if self.rest is not None:
            self.rest()

    def finish(self) -> None:
        """Close the last step if an optimizer has stepped in it."""
        self.rest = None  # no step follows
        if self._pending or (self._unstepped and self.changed()):
            self.close_step()

    def _close_if_due(self) -> None:
        if self._pending or (self._unstepped and not self._optimizing and self.changed()):
            self.close_step()

    # -- signals ------------------------------------------------------------------------

    def data_begin(self) -> Any:
        try:
            if get_ident() != self.thread or self._loading:
                return False
            # None of these can be true here, unless an exception left them behind.
            self._backward = self._recompute = False
            self._forward = 0
            if not self._closure:
                self._optimizing = 0
            if self._pending or self._unstepped:
                self._close_if_due()
            self._loading = True
            self.mark(DATA)
            return True
        except Exception as error:
            self.fail(error)
            return False

    def data_end(self, token: Any, got: bool) -> None:
        try:
            self._loading = False
            if not got or not self.grad_enabled():
                self._idle = OTHER  # the end of an epoch, or an evaluation
            elif self._idle != TAIL:
                self._idle = PRE
            self.mark(self.base() if self._optimizing else self._idle)
        except Exception as error:
            self.fail(error)

    def forward_begin(self, root: int) -> None:
        try:
            if get_ident() != self.thread or self._backward:
                return
            if self._forward and self._root != root:
                return  # a module inside the one that is running
            if self._optimizing and not self._closure:
                self._optimizing = 0  # its step raised, so its post hook never ran
            if self._pending or self._unstepped:
                self._close_if_due()
            self._root = root
            self._forward = FORWARD if self.grad_enabled() else EVAL
            self.root_fired = True
            self.mark(self._forward)
        except Exception as error:
            self.fail(error)

    def forward_end(self, root: int) -> None:
        try:
            if self._root != root or self._backward or get_ident() != self.thread:
                return
            if self._forward == FORWARD:
                self._idle = TAIL
            self._forward = self._root = 0
            self.mark(self.base() if self._optimizing or self._loading else self._idle)
        except Exception as error:
            self.fail(error)

    def reduces(self, ddp: Any, reduces: bool) -> None:
        try:
            if get_ident() != self.thread:
                return
            self._slots.write(SYNC, 1 if reduces else 0, 0)
            self._kept += 1
            if reduces:
                self.per_reduction, self._kept = self._kept, 0
            if self.on_reducer is not None:
                told, self.on_reducer = self.on_reducer, None
                told(ddp)
        except Exception as error:
            self.fail(error)

    def backward_begin(self) -> Any:
        try:
            if get_ident() != self.thread:
                # A reentrant checkpoint on the engine's own thread: its recompute is over.
                return self.lanes.enter_if_active(BACKWARD) if self.alive else None
            if self._backward:
                self._recompute = False
                self.mark(self.base())
                return None
            if self._optimizing and not self._closure:
                self._optimizing = 0
            if self._pending or self._unstepped:
                self._close_if_due()
            self._backward = True
            self.micro += 1
            self.mark(BACKWARD)
            return True
        except Exception as error:
            self.fail(error)
            return None

    def computed(self) -> None:
        try:
            # On CUDA the engine's thread tells it, while the one that began the backward waits.
            mine = get_ident() == self.thread or (self.alive and self.lanes.native())
            if mine and self._backward:
                self._communication = True
                self.mark(COMMUNICATION)
        except Exception as error:
            self.fail(error)

    def backward_end(self, token: Any, done: bool) -> None:
        try:
            if token is not True:
                token.leave(BACKWARD)
                return
            self._backward = self._recompute = self._communication = False
            self._idle = OTHER
            nested = self._optimizing or self._forward or self._loading
            self.mark(self.base() if nested else OTHER)
            if self._fused:  # an optimizer stepped in the parameters' hooks
                self._fused, self._pending = False, True
            elif done:
                self._unstepped = True
                if self.after_backward is not None:
                    self.after_backward()
        except Exception as error:
            self.fail(error)

    def recompute_begin(self) -> Any:
        try:
            if not self.alive or not self._backward:
                return None
            if get_ident() != self.thread:
                return self.lanes.enter_engine_thread(RECOMPUTE)
            before = self._recompute
            self._recompute = True
            self.mark(RECOMPUTE)
            return (before,)
        except Exception as error:
            self.fail(error)
            return None

    def recompute_end(self, token: Any) -> None:
        try:
            if type(token) is not tuple:
                token.leave(RECOMPUTE)
                return
            self._recompute = token[0] and self._backward
            self.mark(self.base())
        except Exception as error:
            self.fail(error)

    def communication_begin(self) -> Any:
        try:
            if not self.alive:
                return None
            if get_ident() != self.thread:
                return self.lanes.enter_engine_thread(COMMUNICATION) if self._backward else None
            if self._communication:
                return None
            self._communication = True
            self.mark(COMMUNICATION)
            return True
        except Exception as error:
            self.fail(error)
            return None

    def communication_end(self, token: Any) -> None:
        try:
            if token is not True:
                token.leave(COMMUNICATION)
                return
            self._communication = False
            self.mark(self.base())
        except Exception as error:
            self.fail(error)

    def optimizer_begin(self, optimizer: Any, closure: bool) -> Any:
        try:
            key = id(optimizer)
            if get_ident() != self.thread or self._wrapped:
                return False
            if self._backward or (self._optimizing and self._optimizing != key):
                return False  # nested in another one
            if self._pending and (closure or key in self._stepped):
                self.close_step()
            self._optimizing, self._closure = key, closure
            self._forward = 0
            if closure:  # the forward and the backward come first
                self._idle = PRE
                self.mark(PRE)
            else:
                self._idle = OTHER
                self.mark(OPTIMIZER)
            return True
        except Exception as error:
            self.fail(error)
            return False

    def optimizer_end(self, optimizer: Any) -> None:
        try:
            key = id(optimizer)
            if self._optimizing != key:
                if self._optimizing:
                    return
                # On CUDA the hooks that step inside backward run in the engine's thread.
                inside = self._backward and self.alive and self.lanes.native()
                if get_ident() != self.thread and not inside:
                    return
            self.optimizer_seen = True
            if self._backward:
                self._fused = True
            elif not self._wrapped:
                self._stopped_optimizing(key, True)
            if self.after_optimizer is not None:
                self.after_optimizer(optimizer)
        except Exception as error:
            self.fail(error)

    def wrapped_begin(self, optimizer: Any) -> Any:
        if self._wrapped or not self.optimizer_begin(optimizer, False):
            return False
        self._wrapped = True
        return True

    def wrapped_end(self, token: Any, optimizer: Any, closes: bool) -> None:
        try:
            self._wrapped = False
            self.optimizer_seen = True
            self._stopped_optimizing(id(optimizer), closes)
        except Exception as error:
            self.fail(error)

    def _stopped_optimizing(self, key: int, closes: bool) -> None:
        self._optimizing, self._closure = 0, False
        self._idle = OTHER
        self.mark(OTHER)
        self._unstepped = False
        if closes:
            self._pending = True
            self._stepped.add(key)
