"""Gradients cross the wire in half precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from ..comm_bytes import Hook, Wire
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base

_RIVALS = frozenset({"powersgd", "topk", "zero"})


@dataclass(frozen=True)
class Compression(Base):
    """DDP's gradients as fp16 or bf16; they are summed in that precision."""

    name: ClassVar[str] = "compression"
    conflicts: ClassVar[frozenset[str]] = _RIVALS

    dtype: Literal["fp16", "bf16"] = "bf16"

    def plan(self, plan: Plan) -> Plan:
        if self.dtype not in ("fp16", "bf16"):
            raise TechniqueRefused(f"compression: dtype={self.dtype!r}: write 'fp16' or 'bf16'")
        if plan.world == 1:
            return plan.note("compression: one rank, nothing crosses a wire")
        hook = (
            default_hooks.fp16_compress_hook
            if self.dtype == "fp16"
            else default_hooks.bf16_compress_hook
        )

        def make(_model: nn.Module, wire: Wire) -> tuple[Any, Hook]:
            return None, wire.counted(hook, lambda _state, bucket: 2 * bucket.buffer().numel())

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        return "bytes on the wire ÷ 2"
