"""Gradients of 8 bits, with one scale per block and error feedback.

Each block of numbers is divided by a scale, its largest magnitude / 127, and rounded to the nearest
integer; the blocks are those of Dettmers et al. 2022 ("8-bit optimizers via block-wise
quantization"), with equal steps. It is off by half a step at most, so that error feedback makes
up for it (Karimireddy et al. 2019). QSGD (Alistarh et al. 2017) rounds at random instead, and needs
no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from ..comm_bytes import Wire
from ..communication import Communication
from ..error_feedback import Codec, Gathered, in_blocks, split_scales
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange, refuse_scaled_loss


@dataclass(frozen=True)
class Int8(Base):
    """Messages of one byte per number; every rank gathers and sums them up."""

    name: ClassVar[str] = "int8"
    conflicts: ClassVar[frozenset[str]] = only_exchange("int8")
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    block: int = 256

    def plan(self, plan: Plan) -> Plan:
        if self.block < 1:
            raise TechniqueRefused(f"int8: block={self.block} numbers to a scale: at least 1")
        if plan.world == 1:
            return plan.note("int8: one rank, nothing crosses a wire")
        refuse_scaled_loss(self.name, plan)

        def make(model: nn.Module, wire: Wire) -> Communication:
            return Gathered(model, wire, Bytes(self.block))

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return f"{1 + 4 / self.block:.3g} bytes per number, to every rank: pays below 8 ranks"


class Bytes(Codec):
    """Scales (fp32), then the integers."""

    def __init__(self, block: int):
        self._block = block

    def length(self, count: int) -> int:
        return 4 * -(-count // self._block) + count

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        blocks = in_blocks(numbers, self._block)
        scales = blocks.abs().amax(1, keepdim=True) / 127
        steps = (blocks / torch.where(scales > 0, scales, 1)).round().to(torch.int8)
        return torch.cat(
            [scales.view(-1).view(torch.uint8), steps.view(-1)[: len(numbers)].view(torch.uint8)]
        )

    def add(self, message: torch.Tensor, to: torch.Tensor, factor: float) -> None:
        scales, rest = split_scales(message, len(to), self._block)
        steps = in_blocks(rest.view(torch.int8), self._block)
        to.add_((steps * scales).view(-1)[: len(to)], alpha=factor)
