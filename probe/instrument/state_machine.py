# cython: language_level=3, binding=False
"""What the training is doing now: a few flags, one current phase, marks at the edges.

There is no stack of automatic phases. Frameworks raise out of forwards, call hooks
twice or not at all; a flag that is set absolutely recovers at the next signal, a
stack would stay unbalanced. Signals call ``x_begin`` and, if it returned something
true, ``x_end`` with that. None of them raises: what is called that is not ours to
trust (torch, rings of other threads, chores) is called in a ``try``, and only that,
for a training's caches are cold and every line of code that a signal runs counts.

Compiled where there is a C compiler; the same in plain Python elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ..ring import pure as cython

from ..ring.layout import LOADED, Code, Record, float_bits
from ..ring.stale_check import refuse_stale

if cython.compiled:
    from cython.cimports.probe.ring.native import BUILT_FROM, address, get_ident, monotonic_ns
    from cython.cimports.probe.ring.slots import Slots

    refuse_stale(__file__, BUILT_FROM.decode())
else:
    from threading import get_ident
    from time import monotonic_ns

    from ..ring.slots import Slots

    address = id

if TYPE_CHECKING:
    from ..ring.writer import RingWriter
    from .device_clock import DeviceClock
    from .root_module.finder import RootFinder
    from .thread_rings import ThreadRings

COMPILED = bool(cython.compiled)

# Plain ints: an IntEnum member costs a lookup and a slower comparison at every edge.
cython.declare(MARK=cython.int, STEP=cython.int, SYNC=cython.int, STEPPED=cython.int)
cython.declare(STEP_ELSEWHERE=cython.int, VALUE=cython.int)
cython.declare(FORWARD=cython.int, BACKWARD=cython.int, RECOMPUTE=cython.int)
cython.declare(COMMUNICATION=cython.int, OPTIMIZER=cython.int, EVAL=cython.int, OTHER=cython.int)
cython.declare(CHECKPOINT=cython.int, SAVING_ON=cython.int)
cython.declare(STARTUP=cython.int, COMPILE=cython.int)
cython.declare(PRE=cython.int, TAIL=cython.int, RESUMED=cython.int, EXHAUSTED=cython.int)
cython.declare(LOADING=cython.int, FIRST_LOADING=cython.int)
MARK, STEP, SYNC = int(Record.MARK), int(Record.STEP), int(Record.SYNC)
STEPPED, STEP_ELSEWHERE = int(Record.STEPPED), int(Record.STEP_ELSEWHERE)
VALUE = int(Record.VALUE)
FORWARD, BACKWARD = int(Code.FORWARD), int(Code.BACKWARD)
RECOMPUTE, COMMUNICATION = int(Code.RECOMPUTE), int(Code.COMMUNICATION)
OPTIMIZER, EVAL, OTHER = int(Code.OPTIMIZER), int(Code.EVAL), int(Code.OTHER)
CHECKPOINT, SAVING_ON = int(Code.CHECKPOINT), int(Code.SAVING_ON)
STARTUP, COMPILE = int(Code.STARTUP), int(Code.COMPILE)
PRE, TAIL = int(Code.PRE), int(Code.TAIL)
RESUMED, EXHAUSTED = int(Code.RESUMED), int(Code.EXHAUSTED)
LOADING, FIRST_LOADING = int(Code.LOADING), int(Code.FIRST_LOADING)
NONE: frozenset[int] = frozenset()


def _no_name(_optimizer: Any) -> int:
    return OTHER


def _evaluates(_module: Any) -> int:
    return EVAL


@cython.cclass
class PhaseStateMachine:
    """Turns the signals of one training thread into marks of its ring.

    A mark is written where the phase changes; a phase that the user named covers all others.
    """

    # What most signals look at comes first: it shares a cache line.
    thread: int = cython.declare(cython.ulong, visibility="public")  # 0 once nothing is recorded
    cython.declare(_slots=Slots, _optimizing=cython.ulonglong, _current=cython.int)
    cython.declare(_plain=cython.bint, _loading=cython.bint, _pending=cython.bint)
    cython.declare(_unstepped=cython.bint, _idle=cython.int, _communication=cython.bint)
    cython.declare(_recompute=cython.bint, _root=cython.ulonglong, _saving=cython.int)
    _backward: bool = cython.declare(cython.bint, visibility="public")
    _forward: int = cython.declare(cython.int, visibility="public")  # its code; 0: none
    cython.declare(_closure=cython.bint, _wrapped=cython.bint, _fused=cython.bint)
    cython.declare(_compiling=cython.bint, _resumed=cython.bint, _inner_stepped=cython.bint)
    cython.declare(_inner_began=cython.bint, _accumulates=cython.bint, _known=cython.ulonglong)
    cython.declare(_steps_of=dict, _steps_by_code=dict)
    cython.declare(_several=cython.bint, _iterates=cython.bint)
    loaded: bool = cython.declare(cython.bint, visibility="public")
    cython.declare(
        _trained=cython.bint, _elsewhere=dict, _samples_without_gradients=cython.longlong
    )
    cython.declare(
        _most_micro=cython.longlong, _by_write=cython.bint, _evaluated_with_gradients=cython.bint
    )
    root_in_eval_mode: bool = cython.declare(cython.bint, visibility="public")
    batches_elsewhere: int = cython.declare(cython.longlong, visibility="public")
    steps_in_backward: int = cython.declare(cython.longlong, visibility="public")
    cython.declare(_optimizers_entered=cython.longlong, _optimizers_left=cython.longlong)
    steps_elsewhere: int = cython.declare(cython.longlong, visibility="public")
    cython.declare(_forward_seen=cython.bint, _stepped=cython.ulonglong, _also_stepped=frozenset)
    cython.declare(_chores_due_ns=cython.ulonglong, _unreduced=cython.longlong)
    cython.declare(
        _write=object, _write_at=object, _warn=object, _chores=object, _enriched=cython.bint
    )
    cython.declare(_allocated=object, _device=object, _user=list, _code=object)
    cython.declare(_samples=cython.longlong, _samples_code=cython.int)
    cython.declare(_undecided=cython.longlong)
    cython.declare(_trains_since=cython.bint, _evaluates_since=cython.bint)
    cython.declare(_last_samples=cython.longlong, _last_bits=object, _by_hand=cython.bint)
    alive: bool = cython.declare(cython.bint, visibility="public")
    optimizer_seen: bool = cython.declare(cython.bint, visibility="public")
    forward_heard: bool = cython.declare(cython.bint, visibility="public")
    micro: int = cython.declare(cython.longlong, visibility="public")
    per_reduction: int = cython.declare(cython.longlong, visibility="public")
    steps: int = cython.declare(cython.longlong, visibility="public")
    thread_rings: ThreadRings = cython.declare(object, visibility="public")
    grad_enabled: Callable[[], bool] = cython.declare(object, visibility="public")
    changed: Callable[[], bool] = cython.declare(object, visibility="public")
    after_backward: Callable[[Any, bool], None] | None = cython.declare(object, visibility="public")
    on_backward: Callable[[Any], None] | None = cython.declare(object, visibility="public")
    new_optimizer: Callable[[Any], int] = cython.declare(object, visibility="public")
    without_gradients: Callable[[Any], int] = cython.declare(object, visibility="public")
    every_step: bool = cython.declare(cython.bint, visibility="public")
    evaluates: bool = cython.declare(cython.bint, visibility="public")
    finder: RootFinder | None = cython.declare(object, visibility="public")
    rest: Callable[[], None] | None = cython.declare(object, visibility="public")
    on_reducer: Callable[[Any], None] | None = cython.declare(object, visibility="public")

    def __init__(
        self,
        ring: RingWriter,
        thread_rings: ThreadRings,
        *,
        warn: Callable[[str], None],
        chores: Callable[[], int],
    ):
        """Record nothing until :meth:`start`.

        Args:
            ring: where marks are written.
            thread_rings: rings of the other threads.
            warn: called with what went wrong.
            chores: called after a step closed; returns the monotonic time in ns before
                which it need not be called again.
        """
        self._slots: Slots | None = getattr(ring, "slots", None)  # a LaneRing has none
        self._write, self._write_at, self._code = ring.write, ring.write_at, ring.code
        self._samples = 0  # that were loaded for the step that goes on
        self._undecided = 0  # by batches of which no forward has said whether they are a training's
        self._samples_without_gradients = 0  # of the last batch; a training's forward may follow
        self.batches_elsewhere = 0  # loaded by threads that are not recorded
        self._trains_since = self._evaluates_since = False  # the last batch: forwards
        self._samples_code, self._last_samples, self._last_bits = -1, 0, 0
        self._trained = False  # the thread has trained, not only loaded or evaluated
        self._elsewhere: dict[int, int] = {}  # threads that train at the same time: their steps
        self.steps_elsewhere = 0
        self._allocated: Callable[[], int] | None = None
        self._device: DeviceClock | None = None
        self._enriched = False  # marks carry bytes or edges of a device
        self._plain = True  # not enriched, no name of the user's: a mark is one write
        self._current = -1  # the phase of the last mark
        self._user: list[int] = []  # names that the user gave, innermost last
        self.thread = get_ident()
        self.alive = False
        self.thread_rings = thread_rings
        self.steps = 0
        self.micro = 0  # backwards since the last step closed
        self.per_reduction = 0  # forwards of DDP for one that reduces
        self.forward_heard = False  # a forward that trains was heard, ever
        self.optimizer_seen = False
        self.grad_enabled = bool  # torch's, once torch is there
        self.changed = bool  # parameters changed since the last backward
        self.after_backward = None  # (outputs, whether gradients were added up)
        self.on_backward = None  # outputs of every backward, while a step's operations are counted
        self.new_optimizer = _no_name  # an optimizer steps for the first time → code of its name
        self.without_gradients = _evaluates  # a module's forward without gradients → its code
        self.finder = None  # of the modules to listen to, once torch is there
        self.evaluates = False  # the finder knows that an evaluation goes on
        self.root_in_eval_mode = False  # its forwards may want gradients all the same
        self._evaluated_with_gradients = False  # such a forward was taken for an evaluation's
        self.every_step = False  # the finder is told of every step
        self.rest = None  # before the next step, where asked for
        self.on_reducer = None  # called with the first DDP module seen
        self._warn, self._chores = warn, chores
        self._chores_due_ns = 0
        self._unreduced = 0  # forwards of DDP since the last that reduces
        self._idle = STARTUP  # the phase when none of the flags below is set
        self._backward = self._recompute = self._communication = self._loading = False
        self._saving = 0  # SAVING_ON while a checkpoint is saved
        self._compiling = False
        self._iterates = False  # the next batch is the first of an iteration
        self.loaded = False  # a batch was loaded since the last training forward or backward
        self._forward = 0  # FORWARD, EVAL, INFERENCE, NO_GRAD
        self._root = 0  # id of the module whose forward set it
        self._forward_seen = False  # a forward that trains since the last data
        self._optimizing = 0  # id of the outermost optimizer that steps
        self._closure = self._wrapped = self._fused = False
        self._resumed = False  # the optimizer's step has been marked
        self._inner_began = False  # an optimizer began to step inside a framework's step
        self._inner_stepped = False  # and has stepped
        self._accumulates = False  # the backward that runs adds to gradients
        self._known = 0  # id of the last optimizer that stepped
        self._steps_of: dict[int, list[int]] = {}  # by such an id: code of its name, steps
        self._steps_by_code: dict[int, list[int]] = {}  # the same, also of those that are gone
        self._several = False  # more than one
        self._by_hand = False  # the user says where a step ends; signals end none any more
        self._pending = False  # an optimizer has stepped; the step closes at the next signal
        self._unstepped = False  # a backward, and no optimizer since
        self._most_micro = 0  # backwards of a step that an optimizer ended
        self._by_write = False  # the last step was found by what it wrote
        self.steps_in_backward = 0  # of optimizers that step in hooks of gradients
        self._optimizers_entered = self._optimizers_left = 0  # calls of hooks, in this thread
        self._stepped = 0  # id of the first optimizer that has stepped in this step
        self._also_stepped: frozenset[int] = NONE  # and of others

    @cython.ccall
    @cython.exceptval(check=False)
    def base(self) -> cython.int:
        """The phase that the flags say."""
        if self._compiling:
            return COMPILE
        if self._communication:
            return COMMUNICATION
        if self._saving:
            return self._saving
        if self._recompute:
            return RECOMPUTE
        if self._backward:
            return BACKWARD
        if self._loading:
            return LOADING
        if self._forward:
            return self._forward
        if self._optimizing and self._idle == OTHER:
            return RESUMED if self._resumed else OPTIMIZER
        return self._idle

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _put(self, kind: cython.int, code: cython.int, payload: cython.longlong) -> cython.void:
        """Write a record of now, where possible without a call of Python's."""
        if self._slots is None:
            self._write(kind, code, payload)
        else:
            self._slots.write(kind, code, payload)

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _put_at(
        self,
        time_ns: cython.ulonglong,
        kind: cython.int,
        code: cython.int,
        payload: cython.longlong,
    ) -> cython.void:
        if self._slots is None:
            self._write_at(time_ns, kind, code, payload)
        else:
            self._slots.write_at(time_ns, kind, code, payload)

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _mark(self, code: cython.int) -> cython.void:
        """Let the phase be ``code`` from now on, unless the user named one."""
        if code != self._current:
            if self._plain:
                self._current = code
                self._put(MARK, code, -1)
            elif not self._user:
                self._mark_enriched(code)

    def mark(self) -> None:
        """Mark the phase that the flags say."""
        self._mark(self.base())

    @cython.final
    @cython.cfunc
    def _mark_user(self, code: cython.int) -> None:
        self._plain = not self._user and not self._enriched
        if self._enriched:
            self._write_enriched(code)
        else:
            self._current = code
            self._put(MARK, code, -1)

    @cython.final
    @cython.cfunc
    def _write_enriched(self, code: cython.int) -> None:
        self._current = code
        time_ns: cython.ulonglong = monotonic_ns()
        allocated = -1 if self._allocated is None else self._allocated()
        self._put_at(time_ns, MARK, code, allocated)
        if self._device is not None:
            self._device.mark(time_ns, code)

    def start(self, began_ns: int = 0) -> None:
        """Begin to record; the first mark says that start-up began at ``began_ns``, or now."""
        self.alive = True
        if began_ns:
            self._current = STARTUP
            self._put_at(began_ns, MARK, STARTUP, -1)
        else:
            self._mark(STARTUP)

    def enrich(self, allocated: Callable[[], int] | None, device: DeviceClock | None) -> None:
        """Let marks carry the allocator's bytes and edges of a device from now on."""
        self._allocated, self._device = allocated, device
        self._enriched = allocated is not None or device is not None
        self._plain = not self._user and not self._enriched

    def user_enter(self, code: cython.int) -> None:
        """Let the user's name ``code`` cover all phases until it is left."""
        if self._idle == STARTUP:
            self._idle = OTHER
        self._user.append(code)
        self._mark_user(code)

    def user_leave(self, code: cython.int) -> None:
        """Leave a name. Out of order (generators) the innermost name that is left wins."""
        user = self._user
        if user and user[-1] == code:
            user.pop()
        elif code in user:
            del user[len(user) - 1 - user[::-1].index(code)]
        self._mark_user(user[-1] if user else self.base())

    def stop(self) -> None:
        """Record nothing any more."""
        self.alive = False
        self.thread = 0

    def fail(self, error: BaseException) -> None:
        """Stop recording for good: whatever is wrong is ours, not the training's."""
        self.stop()
        self._warn(f"phases are no longer recorded: {type(error).__name__}: {error}")

    @cython.final
    @cython.cfunc
    def _close_step(self) -> None:
        """Write the step's end; it belongs to the step before the signal that found it."""
        self._pending = self._unstepped = False
        self._stepped = 0
        self._also_stepped = NONE
        if not self._by_hand:
            self._write_step()

    @cython.final
    @cython.cfunc
    def _write_step(self) -> None:
        now_ns: cython.ulonglong = monotonic_ns()
        if self._samples or self._undecided:
            self._write_samples(now_ns)
        self._put_at(now_ns, STEP, min(self.micro, 0xFFFF), self.steps)
        self.steps += 1
        self.micro = 0
        if now_ns >= self._chores_due_ns or self.every_step or self.rest is not None:
            self._between_steps(now_ns)

    @cython.final
    @cython.cfunc
    def _write_samples(self, now_ns: cython.ulonglong) -> None:
        self._samples += self._undecided
        self._undecided = 0
        self._trains_since = self._evaluates_since = False
        if self._samples != self._last_samples:
            self._last_samples = self._samples
            self._last_bits = float_bits(self._samples)
        self._samples = 0
        if self._samples_code < 0:
            code: cython.int = self._code(LOADED)
            if code == OTHER:
                return  # the table of names is full, or the ring is not open yet
            self._samples_code = code
        self._put_at(now_ns, VALUE, self._samples_code, self._last_bits)

    def finish(self) -> None:
        """Close the last step if an optimizer has stepped in it."""
        self.rest = None  # no step follows
        self._close_if_due()

    def end_step(self) -> None:
        """End a step here, as the user says: from now on no signal ends one."""
        if not self.alive or (get_ident() != self.thread and not self._adopt(True)):
            return
        self._by_hand, self._pending = True, False
        if self._idle == STARTUP:
            self._idle = OTHER
            self.mark()
        self._write_step()

    # -- signals ------------------------------------------------------------------------

    def data_begin(self) -> Any:
        """Enter the loading of a batch."""
        if get_ident() != self.thread and not self._adopt(False):
            self.batches_elsewhere += 1
            return False
        if self._loading:
            return False
        # None of these can be true here, unless an exception left them behind.
        self._backward = self._recompute = False
        self._forward = 0
        if not self._closure:
            self._optimizing = 0
        if self._pending or self._unstepped:
            self._close_if_due()
        self._loading = True
        if not self._saving:
            self._mark(FIRST_LOADING if self._iterates else LOADING)
        self._iterates = False
        return True

    def iteration_begin(self) -> None:
        """An iteration over a loader begins; no batch has been loaded yet."""
        if get_ident() == self.thread:
            self._iterates = True

    def data_end(self, token: Any, got: cython.bint, samples: cython.longlong = 0) -> None:
        """Leave the loading of a batch; ``got``: there was one, of so many samples if known."""
        if get_ident() != self.thread:
            return  # another thread has taken this one's place meanwhile
        self._loading = False
        # Asking takes microseconds; where forwards are heard, what precedes them is none of them.
        if not got:
            self._idle = OTHER  # the end of an epoch
            self._forward_seen = False
            self._mark(self.base() if self._optimizing or self._saving else EXHAUSTED)
            return
        trains: cython.bint = self._forward_seen or self._wants_gradients()
        # A batch is a training's if a forward that trains came between it and the next one. Of an
        # evaluation's, gradients may be off for the forwards only.
        if self._trains_since:
            self._samples += self._undecided
            self._undecided = 0
        elif self._evaluates_since:
            self._undecided = 0
        self._trains_since = self._evaluates_since = False
        self._samples_without_gradients = 0 if trains else samples
        if trains:
            self._undecided += samples
            if self._idle != TAIL:
                self._idle = PRE
        else:
            self._idle = OTHER  # an evaluation
        self._forward_seen = False
        self.loaded = True
        self._mark(self.base() if self._optimizing or self._saving else self._idle)
        if not (trains or self.evaluates) and self.finder is not None:
            self.evaluates = True
            self._call(self.finder.evaluation_begins)

    def forward_begin(self, root: cython.ulonglong, module: Any) -> None:
        """Enter a call of the root ``module``, whose id is ``root``."""
        if get_ident() != self.thread and not (self._wants_gradients() and self._adopt(True)):
            return
        if self._backward or self._loading:
            return
        if self._forward and self._root != root:
            return  # a module inside the one that is running
        if self._optimizing and not self._closure:
            self._optimizing = 0  # its step raised, so its post hook never ran
        if self._pending or self._unstepped:
            self._close_if_due()
        self._root = root
        self._forward_seen = self._wants_gradients()
        if self._forward_seen and self.root_in_eval_mode and self._evaluates_anyway(module):
            self._forward_seen = False
            self._evaluates_since = self._evaluated_with_gradients = True
            self._forward = EVAL
        elif self._forward_seen:
            self._forward = FORWARD
            self._trains_now()
        else:
            self._forward = self._call_with(self.without_gradients, module) or EVAL
            if self._forward == FORWARD:  # gradients are those of a function around it
                self._forward_seen = True
                self._trains_now()
            else:
                self._evaluates_since = True
        self._mark(self.base() if self._compiling or self._saving else self._forward)

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _trains_now(self) -> cython.void:
        """Note a forward that trains."""
        if self._samples_without_gradients:
            self._undecided += self._samples_without_gradients
            self._samples_without_gradients = 0
        self._evaluated_with_gradients = False
        self._trains_since = True
        self.forward_heard = self._trained = True
        self.loaded = False

    def forward_end(self, root: cython.ulonglong) -> None:
        """Leave a call of the root module."""
        if self._root != root or self._backward or get_ident() != self.thread:
            return
        if self._forward == FORWARD:
            self._idle = TAIL
        elif self._idle == PRE:
            self._idle = OTHER  # its data were taken for a training's
        self._forward = self._root = 0
        nested = self._optimizing or self._loading or self._saving
        self._mark(self.base() if nested else self._idle)

    def in_tail(self) -> bool:
        """Whether a forward that trains was the last that happened: a loss may follow."""
        return self._idle == TAIL

    @cython.ccall
    @cython.exceptval(check=False)
    def may_be_root(self) -> cython.bint:
        """Whether a module that is called now is no part of a call, a loading, a backward."""
        if self._forward or self._backward:
            return False
        if get_ident() == self.thread:
            return not self._loading
        if self._loading and self._trained:
            return False  # one that has only loaded gives its place to the thread that trains
        return self._wants_gradients() and bool(self._adopt(True))

    def reduces(self, ddp: Any, reduces: cython.bint) -> bool:
        """Note a forward of DDP, whose backward ``reduces`` the gradients now or does not.

        Returns True if gradients are wanted at all.
        """
        if get_ident() != self.thread:
            return False
        if self._forward != FORWARD if self._root == address(ddp) else not self._wants_gradients():
            return False
        self._put(SYNC, 1 if reduces else 0, 0)
        self._unreduced += 1
        if reduces:
            self.per_reduction, self._unreduced = self._unreduced, 0
        if self.on_reducer is not None:
            on_reducer, self.on_reducer = self.on_reducer, None
            self._call_with(on_reducer, ddp)
        return True

    def backward_begin(self, accumulates: cython.bint = True) -> Any:
        """Enter the autograd engine; ``accumulates``: gradients are added up, not returned."""
        if get_ident() != self.thread and not self._adopt(True):
            # A reentrant checkpoint on the engine's own thread: its recompute is over.
            return self._enter_thread_ring(BACKWARD, True)
        if self._backward:
            self._recompute = False
            self._mark(self.base())
            return None
        if self._optimizing and not self._closure:
            self._optimizing = 0
        if self._pending or self._unstepped:
            self._close_if_due()
        self._backward = self._trained = True
        self._accumulates = accumulates
        if self._evaluated_with_gradients:
            self._evaluated_with_gradients = False
            if accumulates and self.finder is not None:
                self._call(self.finder.evaluations.backward_follows)
        self.loaded = False
        if not self._saving:
            if accumulates:
                self.micro += 1
            self._mark(BACKWARD)
        return True

    def computed(self) -> None:
        """Wait for other ranks from now on: all gradients of this backward are computed."""
        # On CUDA the engine's thread tells it, while the one that began the backward waits.
        if self._backward and (get_ident() == self.thread or self._in_engine_thread()):
            self._communication = True
            self._mark(COMMUNICATION)

    def backward_end(self, token: Any, done: cython.bint, outputs: Any = None) -> None:
        """Leave the autograd engine; not ``done``: it raised."""
        if token is not True:
            self._call_with(token.leave, BACKWARD)
            return
        self._backward = self._recompute = self._communication = False
        self._idle = OTHER
        nested = self._optimizing or self._forward or self._loading or self._saving
        self._mark(self.base() if nested else OTHER)
        if self._optimizing:
            self._resumed = True
        if self._fused:  # an optimizer stepped in the parameters' hooks
            self._fused, self._pending = False, True
            self.steps_in_backward += 1
        elif done and (
            not self.optimizer_seen or self._by_write or self.micro > self._most_micro
        ):  # more than any step took that an optimizer ended: the user may write parameters
            self._unstepped = True
            if self.after_backward is not None:
                try:
                    self.after_backward(outputs, self._accumulates)
                except Exception as error:
                    self.fail(error)
        if done and self.on_backward is not None:
            self._call_with(self.on_backward, outputs)

    def recompute_begin(self) -> Any:
        """Enter a checkpointed forward that runs again."""
        if not self.alive or not self._backward:
            return None
        if get_ident() != self.thread:
            return self._enter_thread_ring(RECOMPUTE, False)
        before = self._recompute
        self._recompute = True
        self._mark(RECOMPUTE)
        return (before,)

    def recompute_end(self, token: Any) -> None:
        """Leave a checkpointed forward."""
        if type(token) is not tuple:
            self._call_with(token.leave, RECOMPUTE)
            return
        self._recompute = token[0] and self._backward
        self._mark(self.base())

    def communication_begin(self) -> Any:
        """Enter a collective that blocks, or the wait for one."""
        if get_ident() != self.thread:
            return self._enter_thread_ring(COMMUNICATION, False) if self._backward else None
        if self._communication or self._saving:
            return None
        self._communication = True
        self._mark(COMMUNICATION)
        return True

    def communication_end(self, token: Any) -> None:
        """Leave a collective."""
        if token is not True:
            self._call_with(token.leave, COMMUNICATION)
            return
        self._communication = False
        self._mark(self.base())

    def checkpoint_begin(self) -> Any:
        """Enter the saving of a checkpoint."""
        return self._save(CHECKPOINT)

    def checkpoint_end(self, token: Any) -> None:
        """Leave the saving of a checkpoint, or the wait for one."""
        self._saving = 0
        self._mark(self.base())

    def checkpoint_wait_begin(self) -> Any:
        """Enter the wait for a checkpoint that another thread saves: no other visit."""
        return self._save(SAVING_ON)

    @cython.final
    @cython.cfunc
    def _save(self, code: cython.int) -> Any:
        """Be in ``checkpoint`` from now on; what happens inside, collectives too, is part of it."""
        if get_ident() != self.thread or self._saving:
            return None
        if self._pending:
            self._close_if_due()
        self._saving = SAVING_ON
        self._mark(code if not (self._compiling or self._communication) else self.base())
        return True

    def compile_begin(self) -> Any:
        """Enter torch's compiler."""
        if get_ident() != self.thread or self._compiling:
            return None
        self._compiling = True
        self._mark(COMPILE)
        return True

    def compile_end(self, token: Any) -> None:
        """Leave torch's compiler."""
        self._compiling = False
        self._mark(self.base())

    @cython.ccall
    def optimizer_begin(self, optimizer: Any, closure: cython.bint) -> Any:
        """Enter an optimizer's step, with a closure or without."""
        key: cython.ulonglong = address(optimizer)
        if get_ident() != self.thread and not self._adopt(True):
            return False
        self._optimizers_entered += 1
        if self._wrapped:
            if not self._inner_began:
                self._inner_began = True
                self._mark(OPTIMIZER)
            return False
        if self._backward or (self._optimizing and self._optimizing != key):
            return False  # nested in another one
        if self._pending and (closure or key == self._stepped or key in self._also_stepped):
            self._close_step()
        self._optimizing, self._closure = key, closure
        self._forward = 0
        self._resumed = not closure
        if closure:  # the forward and the backward come first
            self._idle = PRE
            self._mark(PRE)
        else:
            self._idle = OTHER
            self._mark(OPTIMIZER)
        return True

    def optimizer_end(self, optimizer: Any) -> None:
        """Leave an optimizer's step; of one that raises, torch does not tell the end."""
        key: cython.ulonglong = address(optimizer)
        if get_ident() == self.thread:
            self._optimizers_left += 1
        # On CUDA the hooks that step inside backward run in the engine's thread.
        elif not (self._backward and self._in_engine_thread()):
            self._step_elsewhere()
            return
        if self._optimizing and self._optimizing != key:
            return
        self.optimizer_seen = True
        if self._backward:
            self._fused = True
        elif self._wrapped:
            self._inner_stepped = True
        else:
            self._leave_optimizer(key, True)
        if (key != self._known or self._several) and not self._backward:
            self._call_with(self._count, optimizer)

    def wrapped_begin(self, optimizer: Any, part: cython.bint = False) -> Any:
        """Enter a framework's own step, inside which an optimizer may or may not step.

        ``part``: a part of a step, as unscaling the gradients.
        """
        key: cython.ulonglong = address(optimizer)
        if self._wrapped or get_ident() != self.thread or self._backward or self._optimizing:
            return False
        if not part and self._pending and (key == self._stepped or key in self._also_stepped):
            self._close_step()
        self._optimizing, self._closure, self._resumed = key, False, True
        self._forward = 0
        self._idle = OTHER
        self._mark(RESUMED)  # it counts once an optimizer steps in it
        self._wrapped = True
        self._inner_began, self._inner_stepped = part, False
        return True

    def wrapped_end(self, token: Any, optimizer: Any, closes: object) -> None:
        """Leave a framework's own step.

        Args:
            token: what :meth:`wrapped_begin` returned.
            optimizer: what it was given.
            closes: it was one of the training's steps; None: if an optimizer stepped in it.
        """
        self._wrapped = False
        if closes is None:
            closes = self._inner_stepped  # what is no optimizer of torch's is found by its writes
            self.optimizer_seen = self.optimizer_seen or self._inner_stepped
        else:
            self.optimizer_seen = True
        if closes and not self._inner_began:
            self._mark(OPTIMIZER)  # what stepped is no optimizer of torch's
        self._leave_optimizer(address(optimizer), bool(closes))

    def optimizer_made(self, optimizer: Any) -> None:
        """Note that an optimizer is new: one that is gone may have had its id."""
        if self._unstepped and get_ident() == self.thread:
            self._close_if_due()  # it may own parameters that were written without it until now
        key: cython.ulonglong = address(optimizer)
        if self._steps_of.pop(key, None) is not None and key == self._known:
            self._known = 0

    def _count(self, optimizer: Any) -> None:
        """Count the steps of each optimizer, once there are several."""
        key = id(optimizer)
        steps = self._steps_of.get(key)
        if steps is None:
            code = self.new_optimizer(optimizer)  # one for all where there are very many
            # Of the many under one name the last may be gone: their count goes on.
            steps = self._steps_by_code.setdefault(code, [code, 0])
            self._steps_of[key] = steps
            self._several = len(self._steps_of) > 1
            if not self._several:
                self._known = key
                return
            # Until now the first one was alone; it may be counted under the same name.
            for place, other in self._steps_of.items():
                if place != key and not other[1]:
                    other[1] = self.steps + (1 if self._stepped and self._stepped != key else 0)
                    self._put(STEPPED, other[0], other[1])
        steps[1] += 1
        self._put(STEPPED, steps[0], steps[1])

    @cython.final
    @cython.cfunc
    def _leave_optimizer(self, key: cython.ulonglong, closes: cython.bint) -> None:
        self._optimizing, self._closure = 0, False
        self._idle = OTHER
        self._mark(OTHER)
        if closes:
            self._unstepped = self._by_write = False
            self._most_micro = max(self._most_micro, self.micro)
            self._pending = True
            if not self._stepped:
                self._stepped = key
            elif self._stepped != key:
                self._also_stepped |= {key}

    @cython.final
    @cython.cfunc
    def _close_if_due(self) -> None:
        if self._pending or (self._unstepped and not self._optimizing and self._call(self.changed)):
            self._by_write = not self._pending and self.optimizer_seen
            self._close_step()

    # -- other threads ------------------------------------------------------------------

    def _adopt(self, trains: cython.bint) -> bool:
        """Let the calling thread take the place of the recorded one, if that has ended or waits.

        The thread that enters ``watch`` need not be the one that trains. ``trains``: the signal is
        of training, not of loading, which other threads do ahead of it.
        """
        if not self.alive or self._call(self.thread_rings.native):
            return False
        if self._trained:
            if self._forward or self._backward or self._optimizing or self._loading:
                return False
            waits = self.thread_rings.waits if trains else self.thread_rings.joins
            if not self._call_with(waits, self.thread):
                return False
        elif not trains and (self._loading or self._forward):
            return False
        if self._pending:
            self._close_step()  # of the thread before
        self._loading = self._backward = self._recompute = self._communication = False
        self._wrapped = False
        self._forward = self._saving = 0
        self._optimizing = 0
        self.thread = get_ident()
        return True

    def _step_elsewhere(self) -> None:
        """Count a step of a thread that trains while another one is recorded."""
        if not self.alive or self._call(self.thread_rings.native):
            return
        here = get_ident()
        self._elsewhere[here] = self._elsewhere.get(here, 0) + 1
        self.steps_elsewhere += 1
        self._put(STEP_ELSEWHERE, 0, self.steps_elsewhere)

    def steps_raised(self) -> int:
        """How many steps of optimizers raised; to be asked between two steps."""
        return max(0, self._optimizers_entered - self._optimizers_left)

    def ends_by_error(self) -> None:
        """Leave the optimizer whose step raised what ends the training: nothing follows it."""
        if self._optimizing:
            self._optimizers_left += 1

    def threads_elsewhere(self) -> int:
        """How many threads trained while another one was recorded."""
        return len(self._elsewhere)

    # -- what may raise -----------------------------------------------------------------

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _wants_gradients(self) -> cython.bint:
        try:
            return self.grad_enabled()
        except Exception as error:
            self.fail(error)
            return False

    @cython.final
    @cython.cfunc
    def _evaluates_anyway(self, module: Any) -> cython.bint:
        """Whether a forward that wants gradients is an evaluation's all the same."""
        return self.finder is not None and bool(
            self._call_with(self.finder.evaluations.with_gradients, module)
        )

    @cython.final
    @cython.cfunc
    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self.fail(error)
            return None

    @cython.final
    @cython.cfunc
    def _call_with(self, call: Callable[[Any], Any], what: Any) -> Any:
        try:
            return call(what)
        except Exception as error:
            self.fail(error)
            return None

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _mark_enriched(self, code: cython.int) -> cython.void:
        try:
            self._write_enriched(code)
        except Exception as error:
            self.fail(error)

    @cython.final
    @cython.cfunc
    def _between_steps(self, now_ns: cython.ulonglong) -> None:
        if self.every_step and self.finder is not None:
            self._call(self.finder.step_closed)
        if now_ns >= self._chores_due_ns:
            due_ns = self._call(self._chores)
            self._chores_due_ns = due_ns or 0
        if self.rest is not None:
            self._call(self.rest)

    @cython.final
    @cython.cfunc
    @cython.exceptval(check=False)
    def _in_engine_thread(self) -> cython.bint:
        return self.alive and bool(self._call(self.thread_rings.native))

    @cython.final
    @cython.cfunc
    def _enter_thread_ring(self, code: cython.int, active: cython.bint) -> Any:
        """Enter ``code`` on another thread: one in a phase (``active``), or the engine's own."""
        if not self.alive:
            return None
        lanes = self.thread_rings
        return self._call_with(lanes.enter_if_active if active else lanes.enter_engine_thread, code)
