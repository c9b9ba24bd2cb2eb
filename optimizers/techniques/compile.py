"""torch.compile of the whole model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import nn

from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class Compile(Base):
    """Fuses operations; the first steps take minutes on a large model.

    Run on CPUs; on a GPU not run on hardware.
    """

    name: ClassVar[str] = "compile"
    conflicts: ClassVar[frozenset[str]] = frozenset({"zero"})
    after: ClassVar[frozenset[str]] = frozenset({"checkpointing", "channels_last", "precision"})

    mode: str | None = None

    def plan(self, plan: Plan) -> Plan:
        def change(model: nn.Module) -> nn.Module:
            return cast(nn.Module, torch.compile(model, mode=cast(Any, self.mode)))

        return replace(plan, models=(*plan.models, change))

    def predicts(self, plan: Plan) -> str:
        return "less memory traffic between operations; start-up costs once"
