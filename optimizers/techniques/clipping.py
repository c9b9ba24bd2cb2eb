"""Gradients of a norm above τ are scaled down to it (paper eq. 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class Clipping(Base):
    """g ← g · min(1, τ/‖g‖), the norm over all parameters and ranks."""

    name: ClassVar[str] = "clipping"
    equation: ClassVar[str] = "(12)"

    norm: float = 1.0

    def plan(self, plan: Plan) -> Plan:
        if not self.norm > 0:
            raise TechniqueRefused(f"clipping: norm={self.norm}: a norm above 0")
        return replace(plan, clip_norm=float(self.norm))

    def predicts(self, plan: Plan) -> str:
        return f"no step longer than a gradient of norm {self.norm:g}"
