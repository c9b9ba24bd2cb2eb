"""Linear warm-up and cosine decay over samples consumed, scaled with the step's size (eq. 10, 11).

Counting samples, not steps, keeps the horizon where it is when k changes: one sample budget is
one schedule, for all sizes of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ..errors import TechniqueRefused
from ..plan import Plan, Schedule
from ..technique import Base


@dataclass(frozen=True)
class WarmupCosine(Base):
    """η rises linearly over the first 5 % of the samples, then falls to 0.1 η along a cosine."""

    name: ClassVar[str] = "schedule"
    equation: ClassVar[str] = "(10) (11)"
    after: ClassVar[frozenset[str]] = frozenset({"accumulation"})

    warmup: float = 0.05
    floor: float = 0.1
    scaling: Literal["none", "linear", "sqrt"] = "none"

    def plan(self, plan: Plan) -> Plan:
        if not 0 <= self.warmup < 1 or not 0 <= self.floor <= 1:
            raise TechniqueRefused(
                f"schedule: warmup={self.warmup} and floor={self.floor} are shares between 0 and 1"
            )
        if self.scaling not in ("none", "linear", "sqrt"):
            raise TechniqueRefused(
                f"schedule: scaling={self.scaling!r}: write 'none', 'linear' or 'sqrt'"
            )
        return replace(plan, schedule=Schedule(self.warmup, self.floor, self.scaling))

    def predicts(self, plan: Plan) -> str:
        return "fewer samples to the target; nothing per sample"


def rate(schedule: Schedule, done: float, step_samples: int, batch_size: int) -> float:
    """η/η_base of the step that ends at a share ``done`` of the sample budget.

    η_base is scaled by the step's samples over |B|: linearly (SGD) or with the square root (Adam).
    """
    share = min(max(done, 0.0), 1.0)
    if share < schedule.warmup:
        factor = share / schedule.warmup
    else:
        progress = (share - schedule.warmup) / (1 - schedule.warmup)
        factor = schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * progress)) / 2
    growth = step_samples / batch_size
    if schedule.scaling == "linear":
        return factor * growth
    return factor * math.sqrt(growth) if schedule.scaling == "sqrt" else factor
