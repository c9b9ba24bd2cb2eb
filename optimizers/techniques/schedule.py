"""Linear warm-up and a decay over samples consumed, scaled with the step's size (eq. 10, 11).

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

_SHAPES = ("cosine", "linear", "wsd", "rex")
_DECAY = 0.2  # the default of ``shape="wsd"``, a share of all samples


@dataclass(frozen=True)
class WarmupCosine(Base):
    """η rises linearly over the first 5 % of the samples, then falls to 0.1 η along a cosine.

    ``shape`` (None: the paper's cosine) is another way to fall: ``linear``; ``rex``, the reflected
    exponential of Chen, Wolfe & Kyrillidis 2021; ``wsd`` stays at η and falls in the last ``decay``
    of all samples only (None: 0.2), as one minus the root of Hägele et al. 2024, who found it
    better than a linear fall.
    """

    name: ClassVar[str] = "schedule"
    equation: ClassVar[str] = "(10) (11)"
    after: ClassVar[frozenset[str]] = frozenset({"accumulation"})

    warmup: float = 0.05
    floor: float = 0.1
    scaling: Literal["none", "linear", "sqrt"] = "none"
    shape: Literal["cosine", "linear", "wsd", "rex"] | None = None
    decay: float | None = None

    def __post_init__(self) -> None:
        if self.shape == "cosine":  # two ways to write the default are one stack
            object.__setattr__(self, "shape", None)
        if self.shape == "wsd" and self.decay is None:
            object.__setattr__(self, "decay", _DECAY)

    def plan(self, plan: Plan) -> Plan:
        if not 0 <= self.warmup < 1 or not 0 <= self.floor <= 1:
            raise TechniqueRefused(
                f"schedule: warmup={self.warmup} and floor={self.floor} are shares between 0 and 1"
            )
        if self.scaling not in ("none", "linear", "sqrt"):
            raise TechniqueRefused(
                f"schedule: scaling={self.scaling!r}: write 'none', 'linear' or 'sqrt'"
            )
        shape, decay = self.shape or "cosine", self.decay
        if shape not in _SHAPES:
            raise TechniqueRefused(f"schedule: shape={shape!r}: {', '.join(_SHAPES)}")
        if decay is not None and shape != "wsd":
            raise TechniqueRefused(
                f"schedule: decay={decay} is of shape=wsd; a {shape} falls all the way after the "
                "warm-up: leave it out"
            )
        if decay is not None and not 0 < decay <= 1 - self.warmup:
            raise TechniqueRefused(
                f"schedule: decay={decay}: a share above 0 of the samples that warmup="
                f"{self.warmup} leaves"
            )
        schedule = Schedule(self.warmup, self.floor, self.scaling, shape)
        return replace(plan, schedule=schedule if decay is None else replace(schedule, decay=decay))

    def predicts(self, plan: Plan) -> str:
        text = "fewer samples to the target; nothing per sample"
        if self.shape == "wsd" and self.decay is not None:
            text += f"; the gain is in the last {self.decay:.0%}: a run that ends before has none"
        return text


def rate(schedule: Schedule, done: float, step_samples: int, batch_size: int) -> float:
    """η/η_base of the step that ends at a share ``done`` of the sample budget.

    η_base is scaled by the step's samples over |B|: linearly (SGD) or with the square root (Adam).
    """
    share = min(max(done, 0.0), 1.0)
    if share < schedule.warmup:
        factor = share / schedule.warmup
    else:
        factor = schedule.floor + (1 - schedule.floor) * _height(schedule, share)
    growth = step_samples / batch_size
    if schedule.scaling == "linear":
        return factor * growth
    return factor * math.sqrt(growth) if schedule.scaling == "sqrt" else factor


def _height(schedule: Schedule, share: float) -> float:
    """Height above the floor, from 1 after the warm-up to 0 at the end, at a share of the samples.

    Sources: ``rex`` arXiv:2107.04197; the fall of ``wsd``, "1-sqrt", arXiv:2405.18392.
    """
    progress = (share - schedule.warmup) / (1 - schedule.warmup)
    if schedule.shape == "linear":
        return 1 - progress
    if schedule.shape == "rex":
        return (1 - progress) / (0.5 + 0.5 * (1 - progress))
    if schedule.shape == "wsd":
        return 1 - math.sqrt(max(0.0, share - (1 - schedule.decay)) / schedule.decay)
    return (1 + math.cos(math.pi * progress)) / 2
