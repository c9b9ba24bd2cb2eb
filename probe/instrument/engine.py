"""The phase engine of one watched run: what ``watch()`` talks to."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from ..ring.layout import MAIN_CAPACITY, EndCode, Record
from ..ring.writer import RingWriter
from .ddp_timers import DdpTimers
from .logged_values import LoggedValues
from .machine_notes import notes_of
from .module_kinds.state_machine import ModuleKindStateMachine
from .overhead import Overhead, OverheadEstimate
from .patches import registry
from .patches.import_hooks import when_imported
from .step_jitter import NAME as JITTER
from .step_jitter import StepJitter
from .thread_rings import ThreadRings
from .training_threads import FirstMachine, TrainingThreads
from .transfers import Transfers

if TYPE_CHECKING:
    from .cuda_memory import CudaMemory
    from .device_clock import DeviceClock
    from .module_kinds.listeners import KindListeners
    from .roofline.step_classifier import StepClassifier, StepRoofline
    from .root_module.finder import RootFinder

_WARNINGS = 32
_BLOCKS = 1024  # names whose context manager is kept: the ring can tell no more of them apart
_FIRST_STEPS = 4  # a device may show up in each of these
_LOOK_NS = 1_000_000_000
_CHORES_NS, _RARELY_NS = 500_000_000, 2_000_000_000  # from one time to the next, at first and later
_AGES = 20  # between them, so many times as old is the training
_engines: weakref.WeakSet[PhaseEngine] = weakref.WeakSet()
_fork_lock = threading.Lock()
_fork_hooked = False


class PhaseEngine:
    """Records the phases of this process's training; never raises into it.

    One thread has automatic phases: the one that trains.
    """

    def __init__(
        self,
        open_ring: Callable[[str, int], RingWriter],
        *,
        model: Any = None,
        optimizer: Any = None,
        chores: Callable[[], None] | None = None,
        dither: float | None = None,
        modules: bool = False,
        classify: bool = False,
    ):
        """Open the main ring.

        Args:
            open_ring: (thread label, capacity) → a new ring.
            model: the root module, or several; others are heard when they are called.
            optimizer: one or several; only needed where their steps are compiled.
            chores: called after a step closed, a few times a second at first and later less.
            dither: share of steps that begin with a short random rest.
            modules: tell forward and backward apart by kind of module.
            classify: count the operations of one step.

        Raises:
            StoreError: the main ring cannot be opened.
        """
        self.warnings: list[str] = []
        self.ring = open_ring("main", MAIN_CAPACITY)
        self._thread_rings = ThreadRings(open_ring)
        machine = ModuleKindStateMachine if modules else FirstMachine
        self._machine = machine(
            self.ring, self._thread_rings, warn=self.warn, chores=self._do_chores
        )
        self._threads = TrainingThreads(
            self._machine, self._thread_rings, self.ring, open_ring, self.warn
        )
        if dither:
            self._machine.rest = StepJitter(self._machine, self.ring.code(JITTER), dither)
        self.values = LoggedValues(self.ring, self._machine, self.warn)
        self._ddp_timers = DdpTimers(self.ring)
        self._machine.on_reducer = self._ddp_timers.follow
        self._overhead = Overhead()
        self._models = _listed(model)
        self._chores = chores
        self.look_ns = time.monotonic_ns() + _LOOK_NS
        self._optimizers = _listed(optimizer)
        self._root_finder: RootFinder | None = None
        self._classify = classify
        self._classifier: StepClassifier | None = None
        self._memory: CudaMemory | None = None
        self._transfers: Transfers | None = None
        self._device: DeviceClock | None = None
        self._cuda: Any = None
        self._busy = False  # there is a device, or an allocator, to ask at every step
        self._withdraw: Callable[[], None] = lambda: None
        self._blocks: dict[str, _UserPhase] = {}
        self._pid, self._began_ns = os.getpid(), time.monotonic_ns()
        self._ended = False
        _watch_forks(self)

    # -- life ---------------------------------------------------------------------------

    def install(self, began_ns: int = 0) -> None:
        """Begin to record: patches, listeners of modules' calls, the first mark.

        ``began_ns``: when start-up began; 0: now.
        """
        try:
            self._machine.start(began_ns)
            self._transfers = Transfers(self.ring, self._machine)
            registry.attach(self._machine, self._transfers)
            self._withdraw = when_imported("torch", self._with_torch)
        except Exception as error:
            self._machine.fail(error)

    def uninstall(self, *, failed: bool = False) -> None:
        """Stop recording and leave torch and the model as they were; ``failed``: by an error."""
        if self._pid != os.getpid():
            return
        if failed:
            self._machine.ends_by_error()
        try:
            self._withdraw()
            registry.detach(self._machine)
            if self._classifier is not None:
                self._classifier.stop()
            if self._root_finder is not None:
                self._root_finder.stop()
            self._models, self._optimizers = [], []
        except Exception as error:
            self._machine.fail(error)

    def end(self, failed: bool, exit_code: int) -> None:
        """Close the last step, say how the block was left, close the rings."""
        if self._ended or self._pid != os.getpid():
            return
        self._ended = True
        with contextlib.suppress(Exception):
            if self._machine.alive:
                self._threads.finish()
                self._machine.finish()
            if self._root_finder is not None:
                self._root_finder.forget()
            self._flush()
        self._machine.stop()
        with contextlib.suppress(Exception):
            code = EndCode.FAILED if failed else EndCode.FINISHED
            self.ring.write(int(Record.END), int(code), exit_code)
            self.ring.close()
            self._thread_rings.close()
            self._threads.close()

    def remove_rings(self) -> None:
        """Remove the ring files of a run whose directory has vanished."""
        for ring in (self.ring, *self._thread_rings.all(), *self._threads.opened()):
            with contextlib.suppress(OSError):
                ring.path.unlink(missing_ok=True)

    def disarm(self) -> None:
        """In a forked child: the rings belong to the parent."""
        self._machine.stop()
        self._threads.stop()
        self._ended = True

    # -- the user's calls ---------------------------------------------------------------

    @property
    def beside_computing(self) -> bool:
        """Whether a collective or transfer was waited for that was begun in a call before."""
        return self._transfers is not None and self._transfers.beside_computing

    def all_warnings(self) -> list[str]:
        """What went wrong so far, and what of other threads is missing."""
        unknown = self._root_finder.note_on_steps() if self._root_finder is not None else ""
        missing = self._thread_rings.missing()
        said = (missing, unknown, self._threads.note(), *notes_of(self._machine))
        return [*self.warnings, *filter(None, said)]

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A context manager that names what happens inside; may be nested and re-entered."""
        try:
            return self._blocks[name]
        except (KeyError, TypeError):
            pass  # new, or no string
        if not self._machine.alive:  # the ring of a forked child is its parent's
            return contextlib.nullcontext()
        try:
            block = _UserPhase(self, str(name))
            if len(self._blocks) < _BLOCKS:
                self._blocks[block.name] = block
            return block
        except Exception as error:
            self.warn(f"phase: {type(error).__name__}: {error}")
            return contextlib.nullcontext()

    def step(self) -> None:
        """End a step, of a training that phasewatt does not hear; never raises."""
        try:
            self._machine.end_step()
        except Exception as error:
            self._machine.fail(error)

    # -- what is known ------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Steps closed so far, of all threads."""
        return self._machine.steps + self._machine.steps_elsewhere

    @property
    def model_found(self) -> str:
        """How the root module was found; empty as long as it was not."""
        return self._root_finder.origin if self._root_finder is not None else ""

    @property
    def parameters_hash(self) -> str:
        """sha256 over the root's sorted parameter names and shapes; empty if unknown."""
        return self._root_finder.hash if self._root_finder is not None else ""

    @property
    def step_roofline(self) -> StepRoofline | None:
        """Which part of a step waits for memory; None if it was not counted."""
        return None if self._classifier is None else self._classifier.result

    def overhead(self) -> OverheadEstimate:
        """What recording has cost: share of a step, and how that was found."""
        return self._overhead.summary(self.ring.offered(), self._machine.steps)

    def warn(self, line: str) -> None:
        """Keep a warning for the report; never printed into the training."""
        if line not in self.warnings and len(self.warnings) < _WARNINGS:
            self.warnings.append(line)

    # -- inside -------------------------------------------------------------------------

    def _with_torch(self, torch: ModuleType) -> None:
        try:
            from .root_module.finder import RootFinder

            self._machine.grad_enabled = torch.is_grad_enabled
            self._root_finder = RootFinder(
                self._machine,
                self._models,
                self._optimizers,
                self.warn,
                self.ring.code,
                self._kind_listeners(),
            )
            self._root_finder.start()
        except Exception as error:
            self.warn(f"the model is not hooked: {type(error).__name__}: {error}")
            return
        if self._classify:
            self._begin_to_classify(self._root_finder)

    def _begin_to_classify(self, finder: RootFinder) -> None:
        try:
            from .roofline.step_classifier import StepClassifier

            self._classifier = StepClassifier(
                self._machine,
                lambda: [root.listening.module() for root in finder.roots.values()],
                self.warn,
            )
        except Exception as error:
            self.warn(f"operations are not counted: {type(error).__name__}: {error}")

    def _kind_listeners(self) -> Callable[[Any], KindListeners] | None:
        machine = self._machine
        if not isinstance(machine, ModuleKindStateMachine):
            return None
        from .module_kinds.listeners import KindListeners

        return lambda root: KindListeners(machine, root, self.ring.code)

    def _do_chores(self) -> int:
        """What a closed step allows but not every step needs; returns when it is due again."""
        steps = self._machine.steps
        if steps == 1:
            self._overhead.begin(self.ring.offered())
        self._flush()
        if self._classifier is not None:
            self._classifier.step_closed()
        if self._cuda is None:
            self._look_for_cuda()
        self.look_after_recorder()
        classifies = self._classifier is not None and not self._classifier.is_done
        if self._busy or classifies or steps < _FIRST_STEPS:
            return 0
        now_ns = time.monotonic_ns()
        age_ns = now_ns - self._began_ns
        return now_ns + min(max(_CHORES_NS, age_ns // _AGES), _RARELY_NS)

    def look_after_recorder(self) -> None:
        """After a step, and where a loop has none, after a phase of the user's once a second."""
        self.look_ns = time.monotonic_ns() + _LOOK_NS
        if self._chores is not None:
            try:
                self._chores()
            except Exception as error:
                self._chores = None
                self.warn(f"chores: {type(error).__name__}: {error}")

    def _flush(self) -> None:
        self.values.poll()
        self._ddp_timers.poll(self._machine.per_reduction)
        if self._memory is not None:
            self._memory.step()
        if self._device is not None:
            for edge_ns, reached_ns, code in self._device.drain():
                self.ring.write_at(edge_ns, int(Record.DEVICE), code, reached_ns)

    def _look_for_cuda(self) -> None:
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        self._cuda = cuda
        try:
            from .cuda_memory import CudaMemory
            from .device_clock.cuda import CudaClock

            self._memory = CudaMemory.of_torch(torch, self.ring)
            self._device = CudaClock.of(torch)
            at_edges = None if self._memory is None else self._memory.allocated
            self._machine.enrich(at_edges, self._device)
            self._busy = True
        except Exception as error:
            self.warn(f"no device times: {type(error).__name__}: {error}")


class _UserPhase:
    """``with run.phase(name)``; cheap, holds no state, so one serves all uses of its name."""

    __slots__ = ("_code", "_engine", "_machine", "name")

    def __init__(self, engine: PhaseEngine, name: str):
        self._engine, self._machine, self.name = engine, engine._machine, name
        self._code = engine.ring.code(name)

    def __enter__(self) -> None:
        machine = self._machine
        try:
            if get_ident() == machine.thread:
                machine.user_enter(self._code)
            elif (lane := self._engine._threads.lane()) is not None:
                lane.machine.user_enter(lane.ring.code(self.name))
            elif machine.alive and (other := self._engine._thread_rings.here()) is not None:
                other.enter(other.ring.code(self.name))
        except Exception as error:
            machine.fail(error)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        machine = self._machine
        try:
            if get_ident() == machine.thread:
                machine.user_leave(self._code)
                if time.monotonic_ns() >= self._engine.look_ns:
                    self._engine.look_after_recorder()
            elif (lane := self._engine._threads.lane()) is not None:
                lane.machine.user_leave(lane.ring.code(self.name))
            elif machine.alive and (other := self._engine._thread_rings.here()) is not None:
                other.leave(other.ring.code(self.name))
        except Exception as error:
            machine.fail(error)


def _listed(given: Any) -> list[Any]:
    """What was given as one or as several, as several."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _watch_forks(engine: PhaseEngine) -> None:
    global _fork_hooked
    with _fork_lock:
        _engines.add(engine)
        if not _fork_hooked:
            _fork_hooked = True
            os.register_at_fork(after_in_child=_disarm_all)


def _disarm_all() -> None:
    registry.disarm()
    for engine in list(_engines):
        engine.disarm()
