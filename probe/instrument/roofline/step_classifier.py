"""``watch(classify=True)``: which part of forward, backward and optimizer waits for memory.

The operations of the first step are counted from autograd's graph, after each of its backwards;
when the step is over they are divided by the device's rates. An operation of f floating-point
operations that moves b bytes takes at least max(f/F, b/B) seconds on a device that computes F
operations and moves B bytes per second (Williams et al., 2009, "Roofline"); it waits for memory
where b/B is the larger. All of this is counted as start-up. Whatever goes wrong is one line in the
report, and phases are then classed by their names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ...model import Phase
from ...ring.layout import Code
from ..state_machine import PhaseStateMachine
from . import NOT_SEPARATED
from .graph_operations import GraphOperations, Operation
from .ridge import Ridge, has_room, kept_ridge

_BUDGET_S = 1.0  # for the graphs of all backwards of the step
_MOST_BACKWARDS = 16  # further ones of the step are micro-batches like these
_MOST_HIDDEN = 0.1  # of the bytes, in operations whose arithmetic cannot be seen
_MOST_FROZEN = 0.1  # of the parameters, in parts that no gradient passes
_TRIES = 20  # steps in which there may be room to measure
ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
    torch.optim.Adamax,
    torch.optim.Adadelta,
    torch.optim.RMSprop,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.ASGD,
    torch.optim.Rprop,
)
"""Optimizers that touch every weight a few times and compute next to nothing: they move memory."""


@dataclass(frozen=True, slots=True)
class StepRoofline:
    """``memory_bound``: phase → part of its time on the roofline that waits for memory."""

    memory_bound: Mapping[str, float]
    flops_per_s: float
    bytes_per_s: float

    def to_dict(self) -> dict[str, float | dict[str, float]]:
        """As it is stored with the run."""
        return asdict(self) | {"memory_bound": dict(self.memory_bound)}


class NotCounted(Exception):
    """Why a step cannot be counted; one line for the report."""


class StepClassifier:
    """Counts the first step of a training; never raises into it.

    ``result`` is None until it is known; ``is_done`` says that there is no more to come.
    """

    def __init__(
        self,
        machine: PhaseStateMachine,
        models: Callable[[], Iterable[Any]],
        warn: Callable[[str], None],
    ):
        """Count from now on.

        Args:
            models: gives the modules that are trained, as far as they are known by then.
            warn: called with one line if the step cannot be counted.
        """
        self.result: StepRoofline | None = None
        self.is_done = False
        self._machine, self._models, self._warn = machine, models, warn
        self._graph = GraphOperations()
        self._backwards, self._left_s, self._steps = 0, _BUDGET_S, 0
        self._optimizers: list[bool] = []  # whether each one that steps is elementwise
        self._names_optimizer = machine.new_optimizer
        machine.new_optimizer = self._new_optimizer
        machine.on_backward = self._after_backward

    def stop(self) -> None:
        """Count no more."""
        self.is_done = True
        machine = self._machine
        machine.on_backward = None
        if machine.new_optimizer == self._new_optimizer:
            machine.new_optimizer = self._names_optimizer
        self._graph, self._models = GraphOperations(), tuple

    def step_closed(self) -> None:
        """After a step: the result, once there is one."""
        if self.is_done or not self._backwards:
            return
        self._machine.on_backward = None
        self._as_startup(self._finish)

    def _new_optimizer(self, optimizer: Any) -> int:
        self._optimizers.append(is_elementwise(optimizer))
        return self._names_optimizer(optimizer)

    def _after_backward(self, outputs: Any) -> None:
        if self._backwards < _MOST_BACKWARDS:
            self._backwards += 1
            self._as_startup(lambda: self._count(outputs))

    def _count(self, outputs: Any) -> None:
        begin_s = time.monotonic()
        tensors = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs or ())
        self._graph.add_backward(tensors, begin_s + self._left_s)
        self._left_s -= time.monotonic() - begin_s

    def _finish(self) -> None:
        self._steps += 1
        graph = self._graph
        _refuse_what_is_hidden(graph, self._models())
        device = graph.device
        if device is None or device.type not in ("cpu", "cuda"):
            raise NotCounted(f"the rates of a device of type {device} cannot be measured")
        dtypes = graph.flops_of or {torch.float32: 0.0}  # nothing is computed: any rate will do
        dtype = max(dtypes, key=lambda each: dtypes[each])
        if not has_room(device, dtype):
            if self._steps < _TRIES:
                return
            raise NotCounted("measuring the device's rates once would raise its peak memory")
        shares = memory_bound(graph.operations, rates := kept_ridge(device, dtype))
        if self._optimizers and all(self._optimizers):
            shares[str(Phase.OPTIMIZER)] = 1.0
        self.result = StepRoofline(shares, rates.flops_per_s, rates.bytes_per_s)
        self.stop()

    def _as_startup(self, act: Callable[[], None]) -> None:
        code = int(Code.STARTUP)
        self._machine.user_enter(code)
        try:
            act()
        except Exception as error:
            reason = str(error) if isinstance(error, NotCounted) else _one_line(error)
            self._warn(f"{NOT_SEPARATED}: {reason}")
            self.stop()
        finally:
            self._machine.user_leave(code)


def memory_bound(operations: Iterable[Operation], rates: Ridge) -> dict[str, float]:
    """Phase → part of its time on the roofline that waits for memory, from 0 to 1."""
    total: dict[str, float] = {}
    waiting: dict[str, float] = {}
    for each in operations:
        compute_s, memory_s = each.flops / rates.flops_per_s, each.moved_bytes / rates.bytes_per_s
        total[each.phase] = total.get(each.phase, 0.0) + max(compute_s, memory_s)
        bound_s = memory_s if memory_s > compute_s else 0.0
        waiting[each.phase] = waiting.get(each.phase, 0.0) + bound_s
    return {phase: waiting[phase] / seconds for phase, seconds in total.items() if seconds > 0}


def is_elementwise(optimizer: Any) -> bool:
    """True if a step touches every weight a few times and computes next to nothing.

    Such a step is memory-bound on every device.
    """
    return isinstance(optimizer, ELEMENTWISE)


def _refuse_what_is_hidden(graph: GraphOperations, models: Iterable[Any]) -> None:
    """Raises NotCounted where much of the step is not in the graph."""
    moved = graph.moved_bytes
    if not moved:
        raise NotCounted("the step has no operation with a gradient")
    if graph.hidden_bytes > _MOST_HIDDEN * moved:
        names = ", ".join(sorted(graph.hidden)[:3])
        raise NotCounted(f"what these compute cannot be seen: {names}")
    by_id: dict[int, torch.Tensor] = {}
    for model in models:
        own = [] if model is None else list(model.parameters())
        if any(each.requires_grad for each in own):  # else a teacher, whose calls are inference
            by_id |= {id(each): each for each in own}
    frozen = sum(each.numel() for each in by_id.values() if not each.requires_grad)
    every = sum(each.numel() for each in by_id.values())
    if frozen - graph.unseen_elements > _MOST_FROZEN * every:
        raise NotCounted("a part of the model is frozen, and no gradient passes it")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
