"""What DistributedDataParallel tells of reducing gradients.

Each of its forwards says whether the backward that follows reduces; what that waits for at its end
is the phase ``communication``. How long collectives run beside it only the C++
reducer knows, which times the steps that it samples. On a GPU the timers synchronise the device,
so they are left alone there.

With two micro-batches per step, the one that reduces also adds to the gradients that the other one
made. What that takes is timed here on memory of our own, a few times at the start.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import sys
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ring.layout import REDUCTIONS_WARM_UP, CommCode, Record
from .around import asks_tracing

if TYPE_CHECKING:
    from ..ring.writer import RingWriter
    from .hub import Session

RATE = 10  # one step in so many is timed; torch's default is 100
ADDINGS, BETWEEN = 12, 3  # timed, and reductions from one to the next
_ASKED = 8  # parameters of a model that may leave some unused
SPARED = 4000  # asking DDP takes 0.1 ms: so many times as long nothing is asked
ADDED_BYTES = 128 << 20  # at most, each time; for larger models scaled up


class Reducing:
    """Of the first DDP module that is seen."""

    def __init__(self, ring: RingWriter):
        self._ring = ring
        self._module: weakref.ref[Any] | None = None
        self._due_ns = 0
        self._seen = -1
        self._addings = self._next_adding = 0

    def follow(self, module: Any) -> None:
        """Time its collectives from now on, if it is on the CPU."""
        if any(parameter.device.type != "cpu" for parameter in module.parameters()):
            return
        module._set_ddp_runtime_logging_sample_rate(RATE)
        self._module = weakref.ref(module)

    def poll(self, micros: int) -> None:
        """Record what was timed since the last call; ``micros`` forwards belong to a reduction."""
        module = self._module() if self._module is not None else None
        if module is None or (began := time.monotonic_ns()) < self._due_ns:
            return
        told = module._get_ddp_logging_data()
        self._due_ns = began + SPARED * (time.monotonic_ns() - began)
        step = int(told.get("iteration", -1))
        busy = int(told.get("backward_comm_time", 0))
        if step == self._seen or step <= REDUCTIONS_WARM_UP or busy <= 0:
            return
        self._seen = step
        overlap = int(told.get("backward_compute_comm_overlap_time", 0))
        self._tell(CommCode.BUSY, busy)
        self._tell(CommCode.EXPOSED, max(0, busy - overlap))
        if micros == 2 and self._addings < ADDINGS and step >= self._next_adding:
            self._addings += 1
            self._next_adding = step + BETWEEN
            try:
                self._tell(CommCode.ADDING, adding_ns(module))
            except Exception:  # no memory for it: the difference stays an upper bound
                self._addings = ADDINGS

    def _tell(self, code: CommCode, ns: int) -> None:
        self._ring.write(int(Record.COMM), int(code), ns)


def reducing(original: Callable[..., Any], session: Session) -> Callable[..., Any]:
    """Around DDP's ``_pre_forward``. (Here, as dynamo is told to skip this module: it compiles what
    DDP calls, and would leave us out.)
    """
    from torch import is_grad_enabled

    met: weakref.WeakSet[Any] = weakref.WeakSet()
    last: Callable[[], Any] = weakref.ref(met)  # asking the set takes longer

    @functools.wraps(original)
    def _pre_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal last
        target = session.target
        if target is not None and is_grad_enabled():
            session.reduces = self.require_backward_grad_sync
            if last() is not self:
                last = weakref.ref(self)
                if self not in met:
                    met.add(self)
                    try:
                        Ending(self, session)
                    except Exception as error:  # another torch: the wait stays in backward
                        session.missing.append(f"the end of DDP's backward: {error}")
            target.reduces(self, session.reduces)
        return original(self, *args, **kwargs)

    return _pre_forward


class Ending:
    """Tells when the backwards of a DDP module that reduce have computed all gradients.

    What a backward calls at its end is called in the order in which it was asked for. DDP asks
    when its last bucket is ready, and then waits for the collectives; so whoever asks before any
    one gradient is there comes first. That of the last parameter is usually the first; where some
    may have none, several are asked.
    """

    def __init__(self, module: Any, session: Session):
        from torch.autograd import Variable
        from torch.autograd.graph import get_gradient_edge

        self._session, self._tracing = session, asks_tracing()
        self._ask = Variable._execution_engine.queue_callback
        trained = [one for one in module.parameters() if one.requires_grad]
        apart = -(-len(trained) // _ASKED) if module.find_unused_parameters else len(trained)
        for parameter in trained[::-1][::apart]:
            # Not a hook on the parameter, where others would find it.
            node = get_gradient_edge(parameter).node
            session.undo.append(node.register_prehook(self.begun).remove)

    def begun(self, _gradients: Any) -> None:
        target = self._session.target
        if self._session.reduces and target is not None and not self._tracing():
            self._ask(target.computed)


def adding_ns(module: Any) -> int:
    """How much longer making and adding gradients takes than making and keeping them, in ns."""
    torch = sys.modules["torch"]
    trained = [one.detach() for one in module.parameters() if one.requires_grad]
    sizes = [int(one.numel()) * int(one.element_size()) for one in trained]
    number = max(1, bisect.bisect_right(list(itertools.accumulate(sizes)), ADDED_BYTES))
    with torch.no_grad():
        began = time.perf_counter_ns()
        kept = [torch.ones_like(one) for one in trained[:number]]
        between = time.perf_counter_ns()
        for one in kept:
            one.add_(torch.ones_like(one))
        ended = time.perf_counter_ns()
    made, added = between - began, ended - between
    return round(max(0, added - made) * sum(sizes) / max(1, sum(sizes[:number])))
