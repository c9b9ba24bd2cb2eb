"""The average of a training's weights, kept beside them (technique ``ema``)."""

from __future__ import annotations

import contextlib
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


class WeightAverage:
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
        self._sources = [*stepped, *statistics]
        self._targets = [*(p for p in module.parameters() if p.requires_grad), *statistics]
        self._averages: list[torch.Tensor] = []  # none before the first step that counts
        self._steps = 0  # that are in the average

    @torch.no_grad()
    def add(self, done: float, step: float) -> None:
        """A step is over.

        Args:
            done: share of the sample budget that is consumed.
            step: share of it that the step consumed.
        """
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

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model holds the average; then its own weights again, bit for bit."""
        trained = [target.detach().clone() for target in self._targets if self._averages]
        self.publish()
        try:
            yield
        finally:
            if trained:
                _copy(trained, self._targets)

    def publish(self) -> None:
        """The model holds the average from now on, if there is one."""
        if self._averages:
            _copy(self._averages, self._targets)

    def state(self) -> AverageState:
        """What a resumed run needs."""
        return {"steps": self._steps, "tensors": list(self._averages)}

    def restore(self, state: AverageState | None) -> None:
        """Go on from :meth:`state`. Raises UsageError if the snapshot has none."""
        if state is None:
            raise UsageError(
                "ema: the snapshot holds no average: it is of a training without ema, go on without"
            )
        self._steps, self._averages = state["steps"], list(state["tensors"])


def average_of(
    plan: Plan, module: nn.Module, stepped: Sequence[torch.Tensor]
) -> WeightAverage | None:
    """The average that a plan asks for, if it does."""
    return None if plan.averaging is None else WeightAverage(plan.averaging, module, stepped)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


@torch.no_grad()
def _copy(values: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    torch._foreach_copy_([*targets], [*values])
