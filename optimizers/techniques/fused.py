"""One kernel for the whole optimizer step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class Fused(Base):
    """``fused=True`` of torch's Adam, AdamW, SGD and Adagrad.

    Run on CPUs; on a GPU not run on hardware.
    """

    name: ClassVar[str] = "fused"
    conflicts: ClassVar[frozenset[str]] = frozenset({"zero"})

    def plan(self, plan: Plan) -> Plan:
        return replace(plan, optimizer=plan.optimizer | {"fused": True})

    def predicts(self, plan: Plan) -> str:
        return "weights and state are read once in a step"
