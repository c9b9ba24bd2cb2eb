"""Batches made by other processes, ahead of time, in pinned memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import TechniqueRefused
from ..plan import LoaderOptions, Plan
from ..technique import Base


@dataclass(frozen=True)
class Loader(Base):
    """``workers`` processes, each ``prefetch`` batches ahead; pinned on CUDA (not run on hardware).

    A resumed run has the same samples, but what a data set draws at random in its workers (an
    augmentation) is drawn anew.
    """

    name: ClassVar[str] = "loader"

    workers: int = 2
    prefetch: int = 2

    def plan(self, plan: Plan) -> Plan:
        if self.workers < 0 or self.prefetch < 1:
            raise TechniqueRefused(f"loader: workers={self.workers}, prefetch={self.prefetch}")
        loader: LoaderOptions = {"num_workers": self.workers}
        if self.workers:
            loader |= {"prefetch_factor": self.prefetch, "persistent_workers": True}
        if plan.device == "cuda":
            loader["pin_memory"] = True
        return replace(plan, loader=plan.loader | loader)

    def predicts(self, plan: Plan) -> str:
        return "less waiting in the data phase, if there is any; more processes"
