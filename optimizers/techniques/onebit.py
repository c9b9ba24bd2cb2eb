"""One bit per number: its sign, and the mean magnitude of its block, with error feedback.

Signs with error feedback are 1-bit SGD's (Seide et al. 2014), which sends two means per column, of
the numbers above and below zero; one mean magnitude is the scaled sign of Karimireddy et al. 2019.
Error feedback undoes what is lost where an update is a sum of gradients, as in SGD with momentum.
Adam divides by their squares, which lose for good (Tang et al. 2021, "1-bit Adam").
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
class OneBit(Base):
    """Eight signs to a byte, after ``start`` steps of exact averaging."""

    name: ClassVar[str] = "onebit"
    conflicts: ClassVar[frozenset[str]] = only_exchange("onebit")
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    block: int = 1024
    start: int = 10

    def plan(self, plan: Plan) -> Plan:
        if self.block < 1 or self.start < 0:
            raise TechniqueRefused(f"onebit: block={self.block} ≥ 1 and start={self.start} ≥ 0")
        if plan.world == 1:
            return plan.note("onebit: one rank, nothing crosses a wire")
        refuse_scaled_loss(self.name, plan)

        def make(model: nn.Module, wire: Wire) -> Communication:
            return Gathered(model, wire, Signs(self.block), self.start)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return f"{1 + 32 / self.block:.3g} bits per number, to every rank: pays below 64 ranks"


class Signs(Codec):
    """Mean magnitudes (fp32), then the signs: bit i of byte j is 1 where number 8j + i is ≥ 0."""

    def __init__(self, block: int):
        self._block = block

    def length(self, count: int) -> int:
        return 4 * -(-count // self._block) + -(-count // 8)

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        sums = in_blocks(numbers, self._block).abs().sum(1)
        counts = torch.full_like(sums, self._block)
        counts[-1] = len(numbers) - self._block * (len(sums) - 1)
        bits = in_blocks((numbers >= 0).to(torch.uint8), 8) << _places(numbers)
        return torch.cat([(sums / counts).view(torch.uint8), bits.sum(1, dtype=torch.uint8)])

    def add(self, message: torch.Tensor, to: torch.Tensor, factor: float) -> None:
        scales, rest = split_scales(message, len(to), self._block)
        bits = (rest.unsqueeze(1) >> _places(rest)) & 1
        signs = in_blocks(bits.view(-1)[: len(to)].to(torch.float32) * 2 - 1, self._block)
        to.add_((signs * scales).view(-1)[: len(to)], alpha=factor)


def _places(like: torch.Tensor) -> torch.Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)
