"""Which layers to run again so that activations fit a budget, at the least cost in time.

√L asks nothing of the model. This measures every layer: what it keeps and how long its forward
takes, and drops those first that give back most bytes per second of running again. Each dropped
layer is its own segment: for a transformer, whose layers keep far more than their input, no
longer segment has a lower peak.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..errors import TechniqueRefused
from ..plan import Loss
from ..techniques.checkpointing import Checkpointing, stacks
from .memory import hooked, kept

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Placement:
    """The layers to drop by name, what activations then take at most, the forward time they add."""

    blocks: tuple[str, ...]
    bytes: int
    seconds: float

    def technique(self) -> Checkpointing:
        """To be put into a stack."""
        return Checkpointing(blocks=self.blocks)


def place(model: nn.Module, loss: Loss, batch: Any, budget_bytes: int) -> Placement:
    """Choose layers of all the model's stacks; the model must not be checkpointed yet.

    Raises:
        TechniqueRefused: even with every layer dropped the activations do not fit.
    """
    names = {id(module): name for name, module in model.named_modules()}
    blocks = [block for stack in stacks(model).values() for block in stack]
    measured = kept(model, blocks, loss, batch)
    seconds = _seconds(model, blocks, loss, batch)
    saved = [max(0, a - b) for a, b in zip(measured.blocks, measured.inputs, strict=True)]
    worth = sorted(range(len(blocks)), key=lambda i: seconds[i] / max(saved[i], 1))
    dropped: list[int] = []

    def needed() -> int:
        stays = sum(
            measured.inputs[i] if i in dropped else measured.blocks[i] for i in range(len(blocks))
        )
        return measured.rest + stays + max((measured.blocks[i] for i in dropped), default=0)

    for i in worth:
        if needed() <= budget_bytes:
            break
        dropped.append(i)
    if needed() > budget_bytes:
        raise TechniqueRefused(
            f"checkpointing: activations take {needed() / 2**20:.0f} MiB with every layer dropped, "
            f"the budget is {budget_bytes / 2**20:.0f} MiB: smaller micro-batches (accumulation)"
        )
    return Placement(
        tuple(names[id(blocks[i])] for i in sorted(dropped)),
        needed(),
        sum(seconds[i] for i in dropped),
    )


def _seconds(model: nn.Module, blocks: list[nn.Module], loss: Loss, batch: Any) -> list[float]:
    """Forward time of each block."""
    begins: dict[int, float] = {}
    times: dict[int, list[float]] = {id(block): [] for block in blocks}

    def now() -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()

    def before(block: nn.Module, _given: Any) -> None:
        begins[id(block)] = now()

    def after(block: nn.Module, _given: Any, _out: Any) -> None:
        times[id(block)].append(now() - begins[id(block)])

    with hooked(blocks, before, after), torch.no_grad():
        for _ in range(_ROUNDS):
            loss(model, batch)
    return [statistics.median(times[id(block)]) for block in blocks]
