# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""What the training is doing now: a few flags, one current phase, marks at the edges.

There is no stack of automatic phases. Frameworks raise out of forwards, call hooks
twice or not at all; a flag that is set absolutely recovers at the next signal, a
stack would stay unbalanced. Signals call ``x_begin`` and, if it returned something
true, ``x_end`` with that. None of them raises: what is called that is not ours to
trust (torch, rings of other threads, chores) is called in a ``try``, and only that,
for a training's caches are cold and every line of code that a signal runs counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ..ring import pure as cython

from ..ring.layout import Code, Record
from .edge_writer import Marks

if not cython.compiled:
    from threading import get_ident
    from time import monotonic_ns

    address = id

if TYPE_CHECKING:
    from ..ring.writer import RingWriter
    from .thread_rings import Lanes

COMPILED = bool(cython.compiled)

# Plain ints: an IntEnum member costs a lookup and a slower comparison at every edge.
MARK, STEP, SYNC = int(Record.MARK), int(Record.STEP), int(Record.SYNC)
DATA, FORWARD, BACKWARD = int(Code.DATA), int(Code.FORWARD), int(Code.BACKWARD)
RECOMPUTE, COMMUNICATION = int(Code.RECOMPUTE), int(Code.COMMUNICATION)
OPTIMIZER, EVAL, OTHER = int(Code.OPTIMIZER), int(Code.EVAL), int(Code.OTHER)
PRE, TAIL = int(Code.PRE), int(Code.TAIL)
NONE: frozenset[int] = frozenset()


class Machine(Marks):
    """Turns the signals of one training thread into marks of its ring."""

    # More attributes than CPython lets instances share the keys of: a dict would be slower.
    __slots__ = (
        "_also_stepped", "_backward", "_chores", "_chores_due_ns", "_closure", "_communication",
        "_forward", "_fused", "_heard", "_idle", "_kept", "_loading", "_optimizing", "_pending",
        "_recompute", "_root", "_stepped", "_unstepped", "_warn", "_wrapped", "after_backward",
        "after_optimizer", "alive", "changed", "grad_enabled", "lanes", "micro", "on_reducer",
        "optimizer_seen", "per_reduction", "rest", "root_fired", "steps", "thread",
    )  # fmt: skip

    def __init__(
        self,
        ring: RingWriter,
        lanes: Lanes,
        *,
        warn: Callable[[str], None],
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
        self._heard = False  # a forward that trains since the last data
        self._optimizing = 0  # id of the outermost optimizer that steps
        self._closure = self._wrapped = self._fused = False
        self._pending = False  # an optimizer has stepped; the step closes at the next signal
        self._unstepped = False  # a backward, and no optimizer since
        self._stepped = 0  # id of the first optimizer that has stepped in this step
        self._also_stepped: frozenset[int] = NONE  # and of others

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

    def mark(self, code: int) -> None:
        """The phase is ``code`` from now on, unless the user named one."""
        if code != self._current:
            if self._plain:
                self._current = code
                self._slots.write(MARK, code, -1)
            elif not self._user:
                self._mark_enriched(code)

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
        now_ns = monotonic_ns()
        self._pending = self._unstepped = False
        self._stepped = 0
        self._also_stepped = NONE
        self._slots.write_at(now_ns, STEP, min(self.micro, 0xFFFF), self.steps)
        self.steps += 1
        self.micro = 0
        if now_ns >= self._chores_due_ns or self.rest is not None:
            self._between_steps(now_ns)

    def finish(self) -> None:
        """Close the last step if an optimizer has stepped in it."""
        self.rest = None  # no step follows
        if self._pending or (self._unstepped and self._ask(self.changed)):
            self.close_step()

    # -- signals ------------------------------------------------------------------------

    def data_begin(self) -> Any:
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

    def data_end(self, token: Any, got: bool) -> None:
        self._loading = False
        # Asking takes microseconds; where forwards are heard, what precedes them is none of them.
        if not got or not (self._heard or self._trains()):
            self._idle = OTHER  # the end of an epoch, or an evaluation
        elif self._idle != TAIL:
            self._idle = PRE
        self._heard = False
        self.mark(self.base() if self._optimizing else self._idle)

    def forward_begin(self, root: int) -> None:
        if get_ident() != self.thread or self._backward:
            return
        if self._forward and self._root != root:
            return  # a module inside the one that is running
        if self._optimizing and not self._closure:
            self._optimizing = 0  # its step raised, so its post hook never ran
        if self._pending or self._unstepped:
            self._close_if_due()
        self._root = root
        self._heard = self._trains()
        self._forward = FORWARD if self._heard else EVAL
        self.root_fired = True
        self.mark(self._forward)

    def forward_end(self, root: int) -> None:
        if self._root != root or self._backward or get_ident() != self.thread:
            return
        if self._forward == FORWARD:
            self._idle = TAIL
        elif self._idle == PRE:
            self._idle = OTHER  # its data were taken for a training's
        self._forward = self._root = 0
        self.mark(self.base() if self._optimizing or self._loading else self._idle)

    def reduces(self, ddp: Any, reduces: bool) -> bool:
        if get_ident() != self.thread:
            return False
        if self._forward != FORWARD if self._root == address(ddp) else not self._trains():
            return False
        self._slots.write(SYNC, 1 if reduces else 0, 0)
        self._kept += 1
        if reduces:
            self.per_reduction, self._kept = self._kept, 0
        if self.on_reducer is not None:
            told, self.on_reducer = self.on_reducer, None
            self._tell(told, ddp)
        return True

    def backward_begin(self) -> Any:
        if get_ident() != self.thread:
            # A reentrant checkpoint on the engine's own thread: its recompute is over.
            return self._enter_lane(BACKWARD, True)
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

    def computed(self) -> None:
        # On CUDA the engine's thread tells it, while the one that began the backward waits.
        if self._backward and (get_ident() == self.thread or self._native()):
            self._communication = True
            self.mark(COMMUNICATION)

    def backward_end(self, token: Any, done: bool) -> None:
        if token is not True:
            self._tell(token.leave, BACKWARD)
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
                self._ask(self.after_backward)

    def recompute_begin(self) -> Any:
        if not self.alive or not self._backward:
            return None
        if get_ident() != self.thread:
            return self._enter_lane(RECOMPUTE, False)
        before = self._recompute
        self._recompute = True
        self.mark(RECOMPUTE)
        return (before,)

    def recompute_end(self, token: Any) -> None:
        if type(token) is not tuple:
            self._tell(token.leave, RECOMPUTE)
            return
        self._recompute = token[0] and self._backward
        self.mark(self.base())

    def communication_begin(self) -> Any:
        if get_ident() != self.thread:
            return self._enter_lane(COMMUNICATION, False) if self._backward else None
        if self._communication:
            return None
        self._communication = True
        self.mark(COMMUNICATION)
        return True

    def communication_end(self, token: Any) -> None:
        if token is not True:
            self._tell(token.leave, COMMUNICATION)
            return
        self._communication = False
        self.mark(self.base())

    def optimizer_begin(self, optimizer: Any, closure: bool) -> Any:
        key = address(optimizer)
        if get_ident() != self.thread or self._wrapped:
            return False
        if self._backward or (self._optimizing and self._optimizing != key):
            return False  # nested in another one
        if self._pending and (closure or key == self._stepped or key in self._also_stepped):
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

    def optimizer_end(self, optimizer: Any) -> None:
        key = address(optimizer)
        if self._optimizing != key:
            if self._optimizing:
                return
            # On CUDA the hooks that step inside backward run in the engine's thread.
            if get_ident() != self.thread and not (self._backward and self._native()):
                return
        self.optimizer_seen = True
        if self._backward:
            self._fused = True
        elif not self._wrapped:
            self._stopped_optimizing(key, True)
        if self.after_optimizer is not None:
            self._tell(self.after_optimizer, optimizer)

    def wrapped_begin(self, optimizer: Any) -> Any:
        if self._wrapped or not self.optimizer_begin(optimizer, False):
            return False
        self._wrapped = True
        return True

    def wrapped_end(self, token: Any, optimizer: Any, closes: bool) -> None:
        self._wrapped = False
        self.optimizer_seen = True
        self._stopped_optimizing(address(optimizer), closes)

    def _stopped_optimizing(self, key: int, closes: bool) -> None:
        self._optimizing, self._closure = 0, False
        self._idle = OTHER
        self.mark(OTHER)
        self._unstepped = False
        if closes:
            self._pending = True
            if not self._stepped:
                self._stepped = key
            elif self._stepped != key:
                self._also_stepped |= {key}

    def _close_if_due(self) -> None:
        if self._pending or (self._unstepped and not self._optimizing and self._ask(self.changed)):
            self.close_step()

    # -- what may raise -----------------------------------------------------------------

    def _trains(self) -> bool:
        try:
            return self.grad_enabled()
        except Exception as error:
            self.fail(error)
            return False

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self.fail(error)
            return None

    def _tell(self, call: Callable[[Any], Any], what: Any) -> Any:
        try:
            return call(what)
        except Exception as error:
            self.fail(error)
            return None

    def _mark_enriched(self, code: int) -> None:
        try:
            self._force(code)
        except Exception as error:
            self.fail(error)

    def _between_steps(self, now_ns: int) -> None:
        if now_ns >= self._chores_due_ns:
            due_ns = self._ask(self._chores)
            self._chores_due_ns = due_ns or 0
        if self.rest is not None:
            self._ask(self.rest)

    def _native(self) -> bool:
        return self.alive and bool(self._ask(self.lanes.native))

    def _enter_lane(self, code: int, active: bool) -> Any:
        """Enter ``code`` on another thread: one in a phase (``active``), or one of the engine."""
        if not self.alive:
            return None
        lanes = self.lanes
        return self._tell(lanes.enter_if_active if active else lanes.enter_engine_thread, code)
