"""How much gradient DDP gathers before it sends: small buckets overlap with backward earlier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class Overlap(Base):
    """DDP's ``bucket_cap_mb``.

    Run over gloo; with NCCL not run on hardware.
    """

    name: ClassVar[str] = "overlap"
    conflicts: ClassVar[frozenset[str]] = frozenset({"zero"})

    bucket_mb: float = 10.0

    def plan(self, plan: Plan) -> Plan:
        if not self.bucket_mb > 0:
            raise TechniqueRefused(f"overlap: bucket_mb={self.bucket_mb}: above 0")
        return replace(plan, bucket_mb=self.bucket_mb)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return "exposed communication falls as long as backward has work left"
