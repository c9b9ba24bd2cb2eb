"""Gradients cross the wire in half precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from ..comm_bytes import Wire, size
from ..communication import Averaged, Bucket, Communication
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange


@dataclass(frozen=True)
class Compression(Base):
    """DDP's gradients as fp16 or bf16; they are summed in that precision."""

    name: ClassVar[str] = "compression"
    conflicts: ClassVar[frozenset[str]] = only_exchange("compression")

    dtype: Literal["fp16", "bf16"] = "bf16"

    def plan(self, plan: Plan) -> Plan:
        if self.dtype not in ("fp16", "bf16"):
            raise TechniqueRefused(f"compression: dtype={self.dtype!r}: write 'fp16' or 'bf16'")
        if plan.world == 1:
            return plan.note("compression: one rank, nothing crosses a wire")

        def make(_model: nn.Module, wire: Wire) -> Communication:
            return _Half(wire, self.dtype)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return "bytes on the wire ÷ 2"


class _Half(Communication):
    def __init__(self, wire: Wire, dtype: str):
        self.wire = wire
        fp16, bf16 = default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook
        self._hook: Callable[[Any, Any], Averaged] = fp16 if dtype == "fp16" else bf16

    def average(self, bucket: Bucket) -> Averaged:
        buffer = bucket.buffer()
        self.wire.whole += size(buffer)
        self.wire.sent += 2 * buffer.numel()
        return self._hook(None, bucket)  # None: all ranks
