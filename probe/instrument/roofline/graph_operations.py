"""The operations of a step, as autograd noted them: shapes and types, no values.

After a backward the graph of its loss still knows of each operation which tensors it made and of
which others. So a step is counted without running anything of the user's again: no forward, hook,
generator or counter of theirs is touched. Running the step on fake tensors instead would call the
user's ``forward`` a second time, with all that it does besides.

Not seen: what needs no gradient (frozen parts, batches, masks) and what a function of the user's
own or a compiled graph does inside; :class:`GraphOperations` says how much of that there is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from ...model import Phase
from .arithmetic import WHOLE_BACKWARD, Arithmetic, TensorShape, arithmetic

_LOOK_EVERY = 256  # operations between two looks at the clock
# Neither forward nor backward moves anything.
_VIEWS = frozenset(
    "View UnsafeView ReshapeAlias T Transpose Permute Unsqueeze Squeeze Alias Detach Split Chunk "
    "SplitWithSizes Unbind ViewAsReal ViewAsComplex Swapaxes Movedim".split()
)
# Forward makes a view, backward writes all of what was looked at.
_PARTS = frozenset("Select Slice Narrow AsStrided Expand Diagonal Unfold".split())
# Forward reads as much as it writes, whatever the size of what it reads from.
_GATHERS = frozenset("Embedding Index IndexSelect Gather Take".split())
# Backward passes the gradient on.
_PASSED_ON = frozenset("Add Sub Sum Mean Clone Cat Stack Lift".split())


class TooManyOperations(Exception):
    """A graph that takes too long to walk."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its phase, how much arithmetic, how many bytes it moves."""

    phase: str
    flops: float
    moved_bytes: float


@dataclass(slots=True)
class GraphOperations:
    """Operations of one step.

    ``hidden`` are names of operations whose arithmetic cannot be seen, ``hidden_bytes`` what these
    move, ``unseen_elements`` the elements of inputs without gradients that products have.
    ``flops_of`` sums by type of the result, ``device`` is where the last one is.
    """

    operations: list[Operation] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    hidden_bytes: float = 0.0
    unseen_elements: int = 0
    flops_of: dict[torch.dtype, float] = field(default_factory=dict)
    device: torch.device | None = None
    _counted: set[int] = field(default_factory=set)  # forwards that two backwards share

    @property
    def moved_bytes(self) -> float:
        """Bytes that all operations move."""
        return sum(operation.moved_bytes for operation in self.operations)

    def add_backward(self, outputs: Sequence[Any], deadline_s: float) -> None:
        """Add the operations whose gradients a backward computed, and their backwards.

        Args:
            outputs: the tensors that the backward began with.
            deadline_s: on the clock of ``time.monotonic``.

        Raises:
            TooManyOperations: not done by then.
        """
        for node in _nodes(outputs, deadline_s):
            self._add(node)

    def _add(self, node: Any) -> None:
        name = _name(node)
        if name.endswith("AccumulateGrad"):
            return
        made = [(_shape(each), each) for each in node._input_metadata]
        if not made:
            return
        output, info = made[0]
        self.device = info.device
        inputs = [_input(parent, place) for parent, place in node.next_functions]
        is_new = node._sequence_nr() not in self._counted
        self._counted.add(node._sequence_nr())
        if isinstance(node, BackwardCFunction):
            computed = None  # of the user's own, or a compiled graph
        else:
            transposed = bool(getattr(node, "_saved_transposed", False))
            computed = arithmetic(name, inputs, output, transposed=transposed)
        seen = [each for each in inputs if each is not None]
        whole = float(sum(shape.bytes for shape, _ in made) + sum(each.bytes for each in seen))
        if computed is None:
            self.hidden.add(name)
            self.hidden_bytes += whole
            computed = Arithmetic(0.0)
        whole += computed.unseen * output.item_bytes
        self.unseen_elements += computed.unseen
        if computed.flops:
            dtype = info.dtype
            self.flops_of[dtype] = self.flops_of.get(dtype, 0.0) + computed.flops
        if is_new and (moved := _forward_bytes(name, output, whole)):
            self.operations.append(Operation(str(Phase.FORWARD), computed.flops, moved))
        self.operations += _backward(name, computed.flops, output, seen, whole)


def _forward_bytes(name: str, output: TensorShape, whole: float) -> float:
    if name in _VIEWS or name in _PARTS:
        return 0.0
    return 2.0 * output.bytes if name in _GATHERS else whole


def _backward(
    name: str, flops: float, output: TensorShape, inputs: Sequence[TensorShape], whole: float
) -> Iterator[Operation]:
    """Operations of the backward; its own kernel for each input of a product."""
    phase = str(Phase.BACKWARD)
    if name in WHOLE_BACKWARD:
        yield Operation(phase, 2 * flops, 2 * whole)
    elif flops:
        for each in inputs:
            if len(each.sizes) > 1:
                yield Operation(phase, flops, whole)
            else:  # a bias
                yield Operation(phase, 0.0, float(output.bytes + each.bytes))
    elif name in _PARTS or name in _GATHERS:
        yield Operation(phase, 0.0, float(output.bytes + sum(each.bytes for each in inputs)))
    elif name not in _VIEWS and name not in _PASSED_ON:
        # For every large input: the gradient and what was saved are read, a gradient is written.
        large = [each for each in inputs if 2 * each.elements >= output.elements]
        moved = len(large) * output.bytes + 2 * sum(each.bytes for each in inputs)
        yield Operation(phase, 0.0, float(moved))


def _nodes(outputs: Sequence[Any], deadline_s: float) -> Iterator[Any]:
    waiting = [node for node in (getattr(each, "grad_fn", None) for each in outputs) if node]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) % _LOOK_EVERY == 0 and time.monotonic() > deadline_s:
            raise TooManyOperations(f"more than {len(seen)} operations in a step")
        yield node
        waiting += [parent for parent, _ in node.next_functions if parent is not None]


def _name(node: Any) -> str:
    """``Addmm`` of ``AddmmBackward0``."""
    return str(node.name()).rstrip("0123456789").removesuffix("Backward")


def _input(parent: Any, place: int) -> TensorShape | None:
    if parent is None:
        return None
    made = parent._input_metadata
    return _shape(made[place]) if place < len(made) else None


def _shape(info: Any) -> TensorShape:
    return TensorShape(tuple(int(size) for size in info.shape), info.dtype.itemsize)
