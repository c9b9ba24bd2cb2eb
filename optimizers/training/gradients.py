"""‖ḡ‖ and σ² of a training's steps: of every one where k follows them, else of a few.

A step that is measured follows one whose loss was looked at, so the device has nothing left to do.
The next one is so many steps later that what the last one cost is at most 1 % of the steps between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from torch import nn

from ..plan import Plan
from .engines import Stepped
from .ranks import agreed
from .snapshot import Position
from .variance import GradientVariance, noise

LOOK_EVERY = 10  # steps between two looks at the loss: each one waits for the device
SHARE = 0.005  # of the steps' time; with the calls of the hooks, which no clock of ours sees, ≤ 1 %


class GradientWatch:
    """Decides which steps are measured, and measures them."""

    def __init__(self, parameters: Iterable[nn.Parameter], plan: Plan, *, compiled: bool):
        """``compiled``: hooks that come and go would compile the model again, so no σ² is seen."""
        self.always = plan.accumulation.adaptive
        self.variance = GradientVariance(parameters, plan.world)
        self._ranks, self._on_gpu = plan.world, plan.device == "cuda"
        # Under ZeRO-3 no gradient is ever whole.
        self._sees_variance = self.always or not (compiled or plan.zero_stage == 3)
        self._with_variance = self.always
        self._due = -1
        self._first: tuple[int, float] | None = None  # step and seconds after the first step
        self._began = self._step_s = self._agreement_s = 0.0

    def start(self, at: Position) -> None:
        """The training begins, or goes on, here."""
        self._due, self._first = at.step + 1, None

    def begin(self, at: Position, k: int) -> bool:
        """A step begins; returns True if it is measured."""
        if self.always:
            self.variance.arm()
            return True
        if at.step != self._due:
            return False
        if self._first is None:  # the first step is slower than those to come
            self._first = at.step, at.train_seconds
            self._due = (at.step // LOOK_EVERY + 1) * LOOK_EVERY
            return False
        steps = at.step - self._first[0]
        self._step_s = (at.train_seconds - self._first[1]) / steps if steps else math.inf
        self._began = time.perf_counter()
        self._with_variance = self._sees_variance and k * self._ranks > 1
        if self._with_variance:
            self.variance.arm()
        return True

    def micro_batch(self, weight: float, factor: float) -> None:
        """See :meth:`GradientVariance.micro_batch`."""
        if self._with_variance:
            self.variance.micro_batch(weight, factor)

    def end(self, stepped: Stepped, k: int, samples: int) -> tuple[float | None, dict[str, float]]:
        """A measured step is over.

        Args:
            samples: of the step, over all ranks.

        Returns:
            σ², None where it is unknown; what is logged.
        """
        norm = stepped.norm
        values = {"k": float(k), "grad_norm": math.nan if norm is None else norm}
        sigma2 = None
        if self._with_variance:
            sigma2 = self.variance.result(norm) if norm is not None else None
            values |= noise(sigma2, norm, k * self._ranks, samples)
        if not self.always:
            self._plan_next(stepped)
            if norm is None:  # gradients that have none (sparse ones)
                return None, {}
        return sigma2, values

    def _plan_next(self, stepped: Stepped) -> None:
        begin = time.perf_counter()
        self.variance.close()
        now = time.perf_counter()
        cost_s = stepped.norm_s + self.variance.spent_s + self._agreement_s + now - begin
        if self._on_gpu:  # where a hook takes no time, but what it starts does
            cost_s = max(cost_s, now - self._began - self._step_s)
        apart = max(1, math.ceil(cost_s / (SHARE * LOOK_EVERY * self._step_s))) * LOOK_EVERY
        self._due = -1 if stepped.norm is None else self._due + apart
        if self._ranks > 1:  # σ² is summed over all of them
            begin = time.perf_counter()
            self._due = agreed(self._due)
            self._agreement_s = time.perf_counter() - begin
