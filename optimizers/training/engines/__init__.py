"""What carries a plan out: plain torch (one rank or DDP), or DeepSpeed.

The trainer's loop is the same over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from ...plan import Plan
from ..weight_average import Average

MakeOptimizer = Callable[..., torch.optim.Optimizer]  # (parameters, lr=…, **arguments)


class Stepped(NamedTuple):
    """How a step ended."""

    norm: float | None  # of the gradient, over all ranks, before clipping; None if not asked for
    applied: bool = True  # False: skipped, because a gradient was not finite
    norm_s: float = 0.0  # what the norm cost; nothing where the step needs it anyway


class Engine(Protocol):
    """What a step of the trainer calls."""

    module: nn.Module  # the user's, prepared
    model: nn.Module  # what the loss calls
    optimizer: torch.optim.Optimizer  # whose rate is set
    average: Average | None  # of the weights, where the plan asks for one

    def micro_batch(self, *, last: bool) -> AbstractContextManager[Any]:
        """Around forward and backward of one micro-batch; ranks average in the last one."""

    def backward(self, loss: torch.Tensor) -> None:
        """Accumulate gradients of a loss that is already weighted."""

    @property
    def loss_scale(self) -> float:
        """What :meth:`backward` multiplies the loss by."""

    def step(self, *, want_norm: bool) -> Stepped:
        """Clip, step, clear the gradients."""

    def freeze(self, parameters: Iterable[nn.Parameter]) -> None:
        """Train these no longer, from the next step on.

        Raises:
            TechniqueRefused: this engine trains what it was made with to the end.
        """

    def save(self, folder: Path) -> None:
        """Write this rank's state into an empty folder."""

    def files(self) -> dict[str, object] | None:
        """What :meth:`save` writes on this rank, by the file's name; None if it cannot be told."""

    def load(self, folder: Path, *, same_ranks: bool) -> None:
        """Restore what :meth:`save` wrote, with as many ranks or with others.

        Raises:
            UsageError: this engine cannot go on with another number of ranks.
        """

    def close(self) -> None:
        """Free what the engine holds; no step follows."""


def make_engine(model: nn.Module, plan: Plan, make: MakeOptimizer, micro_batch: int) -> Engine:
    """The engine that a plan asks for, with the model prepared."""
    if plan.zero_stage is not None:
        from .deepspeed import ZeroEngine

        return ZeroEngine(model, plan, make, micro_batch)
    from .plain import PlainEngine

    return PlainEngine(model, plan, make)


__all__ = ["Engine", "MakeOptimizer", "Stepped", "make_engine"]
