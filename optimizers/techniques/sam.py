"""Sharpness-aware minimisation: the step is that of the gradient at a worse point near by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import TechniqueRefused
from ..plan import Plan, Sharpness
from ..technique import EXCHANGES, Base


@dataclass(frozen=True)
class SharpnessAware(Base):
    """Every ``every``-th step takes ∇L(w + ρ·g/‖g‖), g = ∇L(w); the others are as without it.

    g is the gradient of the whole step, over all micro-batches and ranks. The loss that is logged
    and the running statistics of norms are those at w. Foret et al. 2021 with ``every=1``; that a
    tenth of the steps is enough is Composer's default.
    """

    name: ClassVar[str] = "sam"
    # What an exchange has not sent would be added to the gradient of another point.
    conflicts: ClassVar[frozenset[str]] = EXCHANGES | {"zero"}
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    rho: float = 0.05
    every: int = 10

    def plan(self, plan: Plan) -> Plan:
        if not self.rho > 0:
            raise TechniqueRefused(f"sam: rho={self.rho}: a distance above 0")
        if self.every < 1:
            raise TechniqueRefused(f"sam: every={self.every} steps: at least 1")
        if plan.precision.mode == "master":
            raise TechniqueRefused(
                "sam does not go with precision in mode=master: half-precision weights would round "
                "the way to the other point off; use mode=autocast"
            )
        return replace(plan, sharpness=Sharpness(self.rho, self.every))

    def predicts(self, plan: Plan) -> str:
        more = "each step" if self.every == 1 else f"1 of {self.every} steps"
        return f"flatter minima; a second forward and backward in {more}, a copy of the weights"
