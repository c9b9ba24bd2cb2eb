"""The average of a training's weights that is evaluated (techniques ema, schedule_free)."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypedDict

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.swa_utils import get_ema_multi_avg_fn, get_swa_multi_avg_fn

from ..errors import UsageError
from ..plan import Averaging, Plan


class AverageState(TypedDict):
    """A :class:`WeightAverage` as it is saved."""

    steps: int
    tensors: list[torch.Tensor]


class Average(ABC):
    """What the model holds while it is evaluated, and in the end."""

    def __init__(self, targets: Sequence[torch.Tensor]):
        """Of these tensors of the model."""
        self._targets = targets

    @abstractmethod
    def _values(self) -> Sequence[torch.Tensor]:
        """The average of each of them; none if there is no average yet."""

    def add(self, done: float, step: float) -> None:  # noqa: B027  (some keep nothing)
        """A step is over.

        Args:
            done: share of the sample budget that is consumed.
            step: share of it that the step consumed.
        """

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model holds the average; then its own weights again, bit for bit."""
        if not (values := self._values()):
            yield
            return
        trained = [target.detach().clone() for target in self._targets]
        _copy(values, self._targets)
        try:
            yield
        finally:
            _copy(trained, self._targets)

    def publish(self) -> None:
        """The model holds the average from now on, if there is one."""
        if values := self._values():
            _copy(values, self._targets)

    def state(self) -> AverageState | None:
        """What a resumed run needs beside weights and optimizer."""
        return None

    def restore(self, state: AverageState | None) -> None:  # noqa: B027  (the same)
        """Go on from :meth:`state`. Raises UsageError if the snapshot has none."""


class OptimizersAverage(Average):
    """The average that a schedule-free optimizer keeps: x of y = (1 − β) z + β x."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, module: nn.Module, stepped: Sequence[torch.Tensor]
    ):
        """Take what the optimizer steps, in the order of the model's trained parameters."""
        super().__init__([p for p in module.parameters() if p.requires_grad])
        self._optimizer, self._stepped = optimizer, stepped

    @torch.no_grad()
    def _values(self) -> Sequence[torch.Tensor]:
        back = {
            y: 1 - 1 / (group["betas"][0] if "betas" in group else group["momentum"])
            for group in self._optimizer.param_groups
            for y in group["params"]
        }
        kept = self._optimizer.state
        return [
            y.detach().lerp(kept[y]["z"], back[y]) if "z" in kept.get(y, ()) else y.detach()
            for y in self._stepped
        ]


class WeightAverage(Average):
    """Averages in fp32 or wider, whatever the model computes in: bf16 would round steps away."""

    def __init__(self, settings: Averaging, module: nn.Module, stepped: Sequence[torch.Tensor]):
        """Begin without an average.

        Args:
            module: the model; its running statistics of norms are averaged as well.
            stepped: what the optimizer steps, in the order of the model's trained parameters.
        """
        self._settings = settings
        statistics = [
            buffer
            for norm in module.modules()
            if isinstance(norm, _NormBase)
            for buffer in (norm.running_mean, norm.running_var)
            if buffer is not None
        ]
        super().__init__([*(p for p in module.parameters() if p.requires_grad), *statistics])
        self._sources = [*stepped, *statistics]
        self._averages: list[torch.Tensor] = []  # none before the first step that counts
        self._steps = 0  # that are in the average

    @torch.no_grad()
    def add(self, done: float, step: float) -> None:
        if done <= self._settings.start:
            return
        if not self._averages:
            self._averages = [_wide(tensor).clone() for tensor in self._sources]
            self._steps = 1
            return
        weights = [_wide(tensor) for tensor in self._sources]
        if self._settings.half_life is None:
            get_swa_multi_avg_fn()(self._averages, weights, self._steps)
        else:
            decay = 2.0 ** (-step / self._settings.half_life)
            get_ema_multi_avg_fn(decay)(self._averages, weights, self._steps)
        self._steps += 1

    def _values(self) -> Sequence[torch.Tensor]:
        return self._averages

    def state(self) -> AverageState:
        return {"steps": self._steps, "tensors": list(self._averages)}

    def restore(self, state: AverageState | None) -> None:
        if state is None:
            raise UsageError(
                "ema: the snapshot holds no average: it is of a training without ema, go on without"
            )
        self._steps, self._averages = state["steps"], list(state["tensors"])


def average_of(
    plan: Plan, module: nn.Module, stepped: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer
) -> Average | None:
    """The average that a plan asks for, if it does."""
    if plan.evaluates_optimizers_average:
        return OptimizersAverage(optimizer, module, stepped)
    return None if plan.averaging is None else WeightAverage(plan.averaging, module, stepped)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    torch._foreach_copy_([*targets], [*values])
