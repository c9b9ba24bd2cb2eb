"""A constant rate, and an average of the steps in place of a schedule's fall.

Defazio et al. 2024 ("The Road Less Scheduled"), by their package ``schedulefree``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import TechniqueRefused
from ..plan import RATE_FACTOR, MakeRest, Plan, Schedule
from ..technique import Base


@dataclass(frozen=True)
class ScheduleFree(Base):
    """AdamW or SGD without a schedule; ``evaluate`` sees the average that the optimizer keeps.

    The user's model holds that average after ``fit``. It takes the betas (or momentum, 0.9 if there
    is none) and the weight decay of the trainer's AdamW or SGD. After a warm-up over the share
    ``warmup`` of the samples, the rate is the trainer's, or ``lr``: it is often best at one to ten
    times that of a schedule. The horizon of the training is not used, so a run that is ended
    earlier is as good as one that was planned so.
    """

    name: ClassVar[str] = "schedule_free"
    conflicts: ClassVar[frozenset[str]] = frozenset(
        {"ema", "fused", "local_sgd", "muon", "schedule", "zero"}
    )

    lr: float | None = None
    warmup: float = 0.05

    def plan(self, plan: Plan) -> Plan:
        if self.lr is not None and not self.lr > 0:
            raise TechniqueRefused(f"schedule_free: lr={self.lr}: a rate above 0")
        if not 0 <= self.warmup < 1:
            raise TechniqueRefused(
                f"schedule_free: warmup={self.warmup}: a share of the samples, from 0 to below 1"
            )
        if plan.compose_optimizer is not None:
            raise TechniqueRefused(
                "schedule_free does not go with another technique that makes the optimizer: leave "
                "one out"
            )
        if not plan.lr > 0:
            raise TechniqueRefused("schedule_free needs a rate of the trainer above 0")
        _library()

        def make(
            _model: nn.Module, weights: Sequence[torch.Tensor], users: MakeRest
        ) -> torch.optim.Optimizer:
            factor = 1.0 if self.lr is None else self.lr / plan.lr
            return like(users([*weights]), factor)

        return replace(
            plan,
            compose_optimizer=make,
            schedule=Schedule(warmup=self.warmup),
            evaluates_optimizers_average=True,
        )

    def predicts(self, plan: Plan) -> str:
        return "a constant rate after warm-up; evaluated and final: the optimizer's own average"


def _library() -> Any:
    try:
        import schedulefree
    except ImportError:
        raise TechniqueRefused("schedule_free needs a package: pip install schedulefree") from None
    return schedulefree


def like(users: torch.optim.Optimizer, factor: float = 1.0) -> torch.optim.Optimizer:
    """The schedule-free form of an optimizer, with its settings and parameter groups.

    Args:
        factor: its rate over the trainer's.

    Raises:
        TechniqueRefused: there is none.
    """
    library, kind = _library(), type(users)
    groups = users.param_groups
    coupled = kind is torch.optim.Adam and any(
        group["weight_decay"] and not group.get("decoupled_weight_decay") for group in groups
    )
    odd = [
        name for name in ("amsgrad", "maximize", "dampening") if any(g.get(name) for g in groups)
    ]
    if kind not in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD) or coupled or odd:
        what = f"{kind.__name__} with {odd[0]}" if odd else kind.__name__
        what = f"{what} with weight decay in its gradient" if coupled else what
        raise TechniqueRefused(f"schedule_free has no form of {what}; use AdamW or SGD")
    if any("betas" in group and not group["betas"][0] > 0 for group in groups):
        raise TechniqueRefused("schedule_free averages by the first beta: give one above 0")
    is_sgd = kind is torch.optim.SGD
    names = ("params", "weight_decay", *(("momentum",) if is_sgd else ("betas", "eps")))
    own = [{name: group[name] for name in names} for group in groups]
    for group in own if is_sgd else ():
        group["momentum"] = group["momentum"] or 0.9
    made: Any = (library.SGDScheduleFree if is_sgd else library.AdamWScheduleFree)(
        own, lr=groups[0]["lr"] * factor
    )
    for group in made.param_groups:
        group[RATE_FACTOR] = factor
    made.train()
    return made  # type: ignore[no-any-return]
