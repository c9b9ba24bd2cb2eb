"""What a step will hold in memory, by component, from one forward of the user's own model.

Weights, gradients and optimizer state are counted from the model and the plan. Activations are
what autograd keeps, seen by ``torch.autograd.graph.saved_tensors_hooks``, block by block. The peak
is the largest moment of backward: block after block, from the last to the first, activations go
and gradients come; under checkpointing a segment's activations come back first (eq. 18–20 say the
same of equal blocks). What a block's backward needs for itself is taken to be what it kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..plan import Loss, Plan
from ..techniques.checkpointing import segments


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that one forward leaves for backward."""

    blocks: tuple[int, ...]  # of each block of the stack, in the order that they ran
    inputs: tuple[int, ...]  # what each was given
    rest: int  # everything outside the blocks


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank at the peak of a step, by component."""

    weights: int
    optimizer: int
    gradients: int
    activations: int
    working: int

    @property
    def peak(self) -> int:
        """Bytes of all components together."""
        return self.weights + self.optimizer + self.gradients + self.activations + self.working


@contextlib.contextmanager
def saving(resident: Iterable[torch.Tensor]) -> Iterator[list[int]]:
    """Count what autograd keeps for backward inside; yields ``[bytes so far]``.

    Args:
        resident: tensors that stay in memory anyway (weights, the batch), which do not count.
    """
    seen = {storage_id(tensor) for tensor in resident}
    total = [0]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        key = storage_id(tensor)
        if key not in seen:
            seen.add(key)
            total[0] += tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield total


@contextlib.contextmanager
def hooked(
    blocks: Sequence[nn.Module], before: Callable[..., None], after: Callable[..., None]
) -> Iterator[None]:
    """Call ``before(block, inputs)`` and ``after(block, inputs, output)`` around each forward."""
    handles = [block.register_forward_pre_hook(before) for block in blocks]
    handles += [block.register_forward_hook(after) for block in blocks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes of this rank's weights, gradients and optimizer state, as they are now."""
    weights = list(model.parameters())
    state = [t for values in optimizer.state.values() for t in tensors_in(values)]
    return {
        "weights": sum(p.nbytes for p in weights),
        "gradients": sum(
            (p if p.grad is None else p.grad).nbytes for p in weights if p.requires_grad
        ),
        "optimizer": sum(t.nbytes for t in state),
    }


def kept(model: nn.Module, blocks: Sequence[nn.Module], loss: Loss, batch: Any) -> Kept:
    """Run one forward and see what it keeps. The blocks must not be checkpointed yet."""
    resident = (*model.parameters(), *model.buffers(), *tensors_in(batch))
    at: list[int] = []
    sizes: list[int] = []
    inputs: list[int] = []

    def before(_block: nn.Module, given: Any) -> None:
        at.append(total[0])
        inputs.append(sum(t.untyped_storage().nbytes() for t in tensors_in(given)))

    def after(_block: nn.Module, _given: Any, _out: Any) -> None:
        sizes.append(total[0] - at.pop())

    with hooked(blocks, before, after), saving(resident) as total:
        value = loss(model, batch)  # held until the end: it holds what autograd keeps
    del value
    return Kept(tuple(sizes), tuple(inputs), total[0] - sum(sizes))


def predict(
    model: nn.Module, blocks: Sequence[nn.Module], measured: Kept, plan: Plan, every: int | None = 0
) -> Memory:
    """The peak of a step, above a process that has nothing yet.

    Args:
        every: layers per checkpointed segment, None for √L, 0 for no checkpointing.
    """
    width = plan.precision.dtype.itemsize if plan.precision.mode == "master" else 4
    stage, ranks = plan.zero_stage or 0, plan.world if plan.zero_stage else 1
    numbers = sum(p.numel() for p in model.parameters() if p.requires_grad)
    of_block = [sum(p.numel() for p in block.parameters()) * width for block in blocks]
    outside = numbers * width - sum(of_block)
    length = len(measured.blocks)
    groups = [range(i, i + 1) for i in range(length)] if every == 0 else segments(length, every)
    largest = (0, 0, 0)  # gradients, activations, working memory where their sum is largest
    gradients = outside // 2  # the head's are there before the last block's
    for number in reversed(range(len(groups))):
        group = groups[number]
        # What waits for its turn: all blocks before, or only what their segments were given.
        waiting = (
            sum(measured.blocks[: group.start])
            if every == 0
            else sum(measured.inputs[g.start] for g in groups[: number + 1])
        )
        for place in reversed(group):
            gradients += of_block[place]
            activations = measured.rest + waiting + sum(measured.blocks[group.start : place + 1])
            largest = max(largest, (gradients, activations, measured.blocks[place]), key=sum)
    moments = 8 if plan.precision.mode != "master" else 12  # Adam's, and the masters
    return Memory(
        weights=0
        if plan.zero_offload == "all"
        else numbers * width // (ranks if stage >= 3 else 1),
        optimizer=0 if plan.zero_offload else numbers * moments // ranks,
        gradients=largest[0] // (ranks if stage >= 2 else 1),
        activations=largest[1],
        working=largest[2],
    )


def storage_id(tensor: torch.Tensor) -> int:
    """The same number for tensors that share their memory."""
    return int(tensor.untyped_storage()._cdata)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Tensors of a nest of tuples, lists and dicts, in its order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
