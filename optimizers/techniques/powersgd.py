"""PowerSGD: gradients as products of thin matrices, with error feedback (Vogels et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

from ..comm_bytes import Hook, Wire
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base


@dataclass(frozen=True)
class PowerSGD(Base):
    """Rank-``rank`` approximations after ``start`` steps of exact averaging.

    torch keeps its residuals by DDP bucket, which a new process lays out anew: a resumed run begins
    with ``start`` exact steps again.
    """

    name: ClassVar[str] = "powersgd"
    conflicts: ClassVar[frozenset[str]] = frozenset({"compression", "topk", "zero"})

    rank: int = 4
    start: int = 10

    def plan(self, plan: Plan) -> Plan:
        if self.rank < 1 or self.start < 2:
            raise TechniqueRefused(f"powersgd: rank={self.rank} ≥ 1 and start={self.start} ≥ 2")
        if plan.world == 1:
            return plan.note("powersgd: one rank, nothing crosses a wire")

        def make(_model: nn.Module, wire: Wire) -> tuple[Any, Hook]:
            state = powerSGD_hook.PowerSGDState(
                None,
                matrix_approximation_rank=self.rank,
                start_powerSGD_iter=self.start,
                use_error_feedback=True,
                warm_start=True,
            )
            return state, wire.counted(powerSGD_hook.powerSGD_hook, _sent)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        return f"an m × n gradient sends {self.rank}(m + n) numbers, not m·n"


def _sent(state: Any, bucket: Any) -> int:
    """What the hook is about to send: P and Q of the matrices it compresses, the rest whole."""
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        return int(buffer.numel() * buffer.element_size())
    numbers = 0
    for gradient in bucket.gradients():
        rows = gradient.shape[0] if gradient.dim() > 1 else 1
        columns = gradient.numel() // max(rows, 1)
        rank = min(rows, columns, state.matrix_approximation_rank)
        thin = (rows + columns) * rank
        saves = gradient.dim() > 1 and thin * state.min_compression_rate < gradient.numel()
        numbers += thin if saves else gradient.numel()
    return int(numbers * buffer.element_size())
