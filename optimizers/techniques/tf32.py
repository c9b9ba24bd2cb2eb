"""TF32 for fp32 matrix products on NVIDIA GPUs from Ampere on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class Tf32(Base):
    """19-bit products, fp32 sums; what stays fp32 under autocast gains as well.

    Not run on hardware: no test has a GPU.
    """

    name: ClassVar[str] = "tf32"

    def plan(self, plan: Plan) -> Plan:
        if plan.device != "cuda":
            return plan.note("tf32: a CPU has none; nothing is changed")
        return replace(plan, tf32=True)

    def predicts(self, plan: Plan) -> str:
        return "fp32 matrix products on tensor cores" if plan.tf32 else "nothing here"
