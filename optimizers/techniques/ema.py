"""The model that is evaluated and kept is an average of the last steps' weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ..errors import TechniqueRefused
from ..plan import Averaging, Plan
from ..technique import Base

_HALF_LIFE = 0.02  # shares of the samples
_START = {"exponential": 0.0, "equal": 0.8}


@dataclass(frozen=True)
class WeightAverage(Base):
    """``evaluate`` sees the average, and the user's model holds it after ``fit``; no step does.

    ``mode="exponential"``: what a step's weights count for halves with every ``half_life`` (a share
    of the samples; None: 0.02) that follows it. ``mode="equal"``: the mean of all steps from
    ``start`` on (Izmailov et al. 2018). ``start`` is a share of the samples, None: 0 and 0.8.

    By samples, not steps, so the average is of the same part of the training whatever k is. The
    running statistics of norms are averaged with the weights; other buffers are the last step's.
    """

    name: ClassVar[str] = "ema"
    after: ClassVar[frozenset[str]] = frozenset({"zero"})

    mode: Literal["exponential", "equal"] = "exponential"
    half_life: float | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        # Two ways to write a default are one stack.
        if self.start == _START.get(self.mode):
            object.__setattr__(self, "start", None)
        if self.half_life == _HALF_LIFE and self.mode == "exponential":
            object.__setattr__(self, "half_life", None)

    def plan(self, plan: Plan) -> Plan:
        if self.mode not in ("exponential", "equal"):
            raise TechniqueRefused(f"ema: mode={self.mode!r}: write 'exponential' or 'equal'")
        start = _START[self.mode] if self.start is None else self.start
        if not 0 <= start < 1:
            raise TechniqueRefused(f"ema: start={start}: a share of the samples, from 0 to below 1")
        if self.half_life is not None and self.mode == "equal":
            raise TechniqueRefused(
                f"ema: half_life={self.half_life} is of mode=exponential; with mode=equal all "
                "steps from start on count alike: leave it out"
            )
        if self.half_life is not None and not 0 < self.half_life <= 1:
            raise TechniqueRefused(
                f"ema: half_life={self.half_life}: a share of the samples, above 0 and up to 1"
            )
        if plan.zero_stage == 3:
            raise TechniqueRefused(
                "ema does not go with zero stage 3: no rank has the weights to average; use stage "
                "1 or 2"
            )
        half_life = _HALF_LIFE if self.half_life is None else self.half_life
        return replace(
            plan, averaging=Averaging(start, None if self.mode == "equal" else half_life)
        )

    def predicts(self, plan: Plan) -> str:
        if plan.averaging is None or plan.averaging.half_life is None:
            start = _START["equal"] if self.start is None else self.start
            of = f"all weights after {start:.0%} of the samples"
        else:
            of = f"the weights with a half-life of {plan.averaging.half_life:.3g} of the samples"
        return f"evaluated and final: the average of {of}; one more pass over them a step"
