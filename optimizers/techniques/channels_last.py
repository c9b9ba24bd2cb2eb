"""NHWC memory format for convolutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class ChannelsLast(Base):
    """The layout that tensor cores and oneDNN convolve without transposing.

    Run on CPUs; on a GPU not run on hardware.
    """

    name: ClassVar[str] = "channels_last"

    def plan(self, plan: Plan) -> Plan:
        def change(model: nn.Module) -> nn.Module:
            return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

        return replace(plan, models=(*plan.models, change))

    def predicts(self, plan: Plan) -> str:
        return "convolutions without transposes; nothing for a transformer"
