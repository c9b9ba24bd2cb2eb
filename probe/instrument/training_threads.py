"""Several threads that train at the same time: a machine and a ring for each.

Usually one thread trains, and one state machine gets all signals of the patches. When another
thread begins to train at the same time, :class:`TrainingThreads` gets the signals in its place and
passes those of each thread to a machine of its own. A thread that never runs a backward takes
no ring. On CUDA, what the autograd engine's own threads say goes to the first machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, cast

from ..ring.layout import MAIN_CAPACITY, THREAD_CAPACITY, TRAINING_THREAD, Code, Record
from ..ring.writer import RingWriter
from .patches import registry
from .state_machine import PhaseStateMachine
from .thread_lane import Lane, LaneRing

if TYPE_CHECKING:
    from .root_module.finder import RootFinder
    from .thread_rings import ThreadRings

MOST_THREADS = 64  # with a ring each
_NEVER_NS = 1 << 62
_CAPACITY = min(MAIN_CAPACITY, 4 * THREAD_CAPACITY)
STEP_ELSEWHERE = int(Record.STEP_ELSEWHERE)
OTHER, EVAL, NO_GRAD = int(Code.OTHER), int(Code.EVAL), int(Code.NO_GRAD)


class FirstMachine(PhaseStateMachine):
    """The machine of the process's training; says when another thread trains at the same time."""

    __slots__ = ("threads",)  # without a dictionary of its own its methods are found sooner

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.threads: TrainingThreads | None = None

    def may_be_root(self) -> bool:
        if super().may_be_root():
            return True
        try:
            return (
                self.threads is not None
                and self._is_elsewhere()
                and self.grad_enabled()
                and self.threads.may_begin_forward()
            )
        except Exception as error:
            self.fail(error)
            return False

    def _adopt(self, trains: bool) -> bool:
        if super()._adopt(trains):
            return True
        try:
            if trains and self.threads is not None and self._is_elsewhere():
                self.threads.notice()
        except Exception as error:
            self.fail(error)
        return False

    def _is_elsewhere(self) -> bool:
        """Whether the calling thread is one of Python's that is not recorded here."""
        return self.alive and get_ident() != self.thread and not self.thread_rings.native()


class TrainingThreads:
    """Stands before the patches in the first machine's place once two threads train at a time.

    Methods that it does not have are those of the calling thread's machine.
    """

    def __init__(
        self,
        first: FirstMachine,
        rings: ThreadRings,
        ring: RingWriter,
        open_ring: Callable[[str, int], RingWriter],
        warn: Callable[[str], None],
    ):
        """Do nothing until a second thread trains.

        Args:
            first: the machine that gets all signals until then.
            rings: of threads that do not train.
            ring: of ``first``.
            open_ring: (label, capacity) → a new ring.
            warn: called with what went wrong.
        """
        self._warn = warn
        self._first, self._rings, self._ring, self._open_ring = first, rings, ring, open_ring
        self._lanes: dict[int, Lane] = {}
        self._begun: dict[int, int] = {}  # thread: when its first forward began
        self._lock = threading.RLock()
        self._listens = False
        first.threads = self
        rings.begin_backward = self._backward_noticed

    # -- what machines are asked ----------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer_end":
            self._begun.pop(get_ident(), None)  # what was noticed first was the optimizer
        return getattr(self._here(), name)

    @property
    def finder(self) -> RootFinder | None:
        """Of the modules to listen to."""
        return self._first.finder

    def forward_begin(self, root: int, module: Any) -> None:
        """Enter a call of a root module."""
        self._here().forward_begin(root, module)

    def forward_end(self, root: int) -> None:
        """Leave a call of a root module."""
        self._here().forward_end(root)

    # -- what the first machine tells -------------------------------------------------------

    def notice(self) -> None:
        """The calling thread trains while the first does; most likely its forward begins."""
        self._begun[get_ident()] = monotonic_ns()
        self._stand_before()

    def may_begin_forward(self) -> bool:
        """The calling thread calls a module with gradients: whether that may be a root."""
        self._stand_before()
        here = get_ident()
        self._begun.pop(here, None)
        lane = self._lanes.get(here) or self._begin(here)
        return lane is not None and lane.machine.may_be_root()

    # -- what the engine asks ---------------------------------------------------------------

    def opened(self) -> list[RingWriter]:
        """The rings of threads that trained."""
        lanes = list(self._lanes.values())
        return [lane.ring.ring for lane in lanes if lane.ring.ring is not None]

    def note(self) -> str:
        """One line of what threads at the same time mean for the report; else nothing."""
        lanes, left_out = len(self.opened()), self._first.threads_elsewhere()
        if left_out:
            return (
                f"{left_out} other thread{'s' * (left_out != 1)} trained at the same time: their "
                "steps are counted, their phases are not"
            )
        if not lanes:
            return ""
        line = (
            f"{lanes + 1} threads trained at the same time: the times of phases are sums over them "
            "and may exceed the run's; the time of a step is the first one's"
        )
        unknown = sum(
            lane.ring.ring is not None and not lane.machine.optimizer_seen
            for lane in list(self._lanes.values())
        )
        if unknown:
            line += f"; in {unknown} of them no optimizer was seen: steps are unknown there"
        return line

    def close(self) -> None:
        """Say in every ring that nothing follows."""
        for ring in self.opened():
            ring.close()

    def lane(self) -> Lane | None:
        """The calling thread's, if it trains beside the first."""
        return self._lanes.get(get_ident())

    def finish(self) -> None:
        """Close the last steps; nothing is recorded any more."""
        for lane in list(self._lanes.values()):
            if lane.machine.alive:
                lane.machine.finish()
        self.stop()

    def stop(self) -> None:
        """Record nothing any more."""
        for lane in list(self._lanes.values()):
            lane.machine.stop()

    # -- inside -------------------------------------------------------------------------------

    def _here(self) -> PhaseStateMachine:
        here = get_ident()
        if here == self._first.thread:
            return self._first
        lane = self._lanes.get(here)
        if lane is None or here in self._begun:
            lane = self._begin(here)
        return self._first if lane is None else lane.machine

    def _stand_before(self) -> None:
        """Hear all signals from now on."""
        with self._lock:
            if not self._listens:
                self._listens = True
                registry.redirect(self._first, self)
                if self._first.finder is not None:
                    self._first.finder.listen_for(cast(PhaseStateMachine, self))

    def _backward_noticed(self) -> Lane | None:
        """It was a backward, which begins now."""
        here = get_ident()
        if self._begun.pop(here, None) is None or here in self._lanes:
            return None
        lane = self._begin(here)
        if lane is not None:
            lane.machine.backward_begin()
        return lane

    def _begin(self, here: int) -> Lane | None:
        """The lane of a thread that has none; None: the first machine is asked."""
        first, begun_ns = self._first, self._begun.pop(here, 0)
        if not first.alive or self._rings.native():
            return None
        if not begun_ns and self._rings.joins(first.thread):
            return None  # it goes on in the place of the first
        with self._lock:
            ended = next((t for t, lane in self._lanes.items() if lane.has_ended()), None)
            lane = self._lanes.get(here)
            if lane is None and ended is not None:
                lane = self._lanes.pop(ended)
                self._renew(lane)
            elif lane is None and len(self._lanes) < MOST_THREADS:
                label = f"{TRAINING_THREAD}{len(self._lanes) + 1}"
                ring = LaneRing(lambda: self._open_ring(label, _CAPACITY), self._count)
                lane = Lane(ring, self._machine(ring))
            if lane is None:
                return None
            self._lanes[here] = lane
        if begun_ns:
            lane.ring.begun_ns = begun_ns
            lane.machine.grad_enabled = lambda: True
            lane.machine.forward_begin(0, None)
            lane.machine.grad_enabled = first.grad_enabled
            lane.machine.forward_end(0)
        return lane

    def _machine(self, ring: LaneRing) -> PhaseStateMachine:
        """A machine of the calling thread."""
        first = self._first
        machine = PhaseStateMachine(
            cast(RingWriter, ring), self._rings, warn=self._warn, chores=lambda: _NEVER_NS
        )
        machine.grad_enabled = first.grad_enabled
        machine.new_optimizer = self._new_optimizer
        machine.without_gradients = _without_gradients
        machine.alive = True
        return machine

    def _renew(self, lane: Lane) -> None:
        """Let the calling thread go on in the lane of one that has ended."""
        ended = lane.machine
        ended.finish()
        lane.ring.pause()
        lane.machine = self._machine(lane.ring)
        lane.machine.steps = ended.steps

    def _new_optimizer(self, optimizer: Any) -> int:
        """Steps by optimizer are those of the first thread; what it owns is known to all."""
        self._first.new_optimizer(optimizer)
        return OTHER

    def _count(self) -> None:
        """A step of one of these threads closed."""
        self._first.steps_elsewhere += 1
        self._ring.write(STEP_ELSEWHERE, 0, self._first.steps_elsewhere)


def _without_gradients(module: Any) -> int:
    """What a forward without gradients is; NO_GRAD where the future has to tell."""
    return NO_GRAD if module is None or module.training else EVAL
