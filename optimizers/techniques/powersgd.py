"""PowerSGD: gradients as products of thin matrices, with error feedback (Vogels et al. 2019).

torch's hook is not used: it starts collectives in callbacks (see ``communication.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import nn

from ..comm_bytes import Wire
from ..communication import Bucket, Communication, Rounds, State, flat_gradients
from ..error_feedback import ErrorFeedback
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange, refuse_scaled_loss

_MUST_SAVE = 2  # a matrix is compressed if it becomes smaller by more than this


@dataclass(frozen=True)
class PowerSGD(Base):
    """Rank-``rank`` approximations after ``start`` steps of exact averaging."""

    name: ClassVar[str] = "powersgd"
    conflicts: ClassVar[frozenset[str]] = only_exchange("powersgd")
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    rank: int = 4
    start: int = 10

    def plan(self, plan: Plan) -> Plan:
        if self.rank < 1 or self.start < 0:
            raise TechniqueRefused(f"powersgd: rank={self.rank} ≥ 1 and start={self.start} ≥ 0")
        if plan.world == 1:
            return plan.note("powersgd: one rank, nothing crosses a wire")
        refuse_scaled_loss(self.name, plan)

        def make(model: nn.Module, wire: Wire) -> Communication:
            return _ThinProducts(model, wire, self.rank, self.start)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return f"an m × n gradient sends {self.rank}(m + n) numbers, not m·n"


class _ThinProducts(ErrorFeedback):
    """Algorithms 1 and 2 of the paper, in two rounds: P and what is not compressed, then Q.

    What a rank keeps is the error of its own P̂Qᵀ, before the Qs are averaged. Q is made orthonormal
    as well, which leaves the span of MQ as it is, and small numbers above zero.
    """

    def __init__(self, model: nn.Module, wire: Wire, rank: int, start: int):
        super().__init__(model, wire, start)
        self._rank = rank
        self._q: dict[int, torch.Tensor] = {}  # of the last step, by the parameter's place

    def compressed(self, bucket: Bucket) -> Rounds:
        world, dtype = dist.get_world_size(), bucket.buffer().dtype
        thin: list[tuple[int, torch.Tensor, torch.Tensor]] = []  # place, gradient, matrix
        rest = []
        for parameter, gradient in flat_gradients(bucket):
            rows, rank = _thin(parameter, self._rank)
            if rank == 0:
                rest.append(gradient)
                continue
            place = self.place(parameter)
            matrix = self.accumulate(place, gradient).view(rows, -1)
            if place not in self._q:
                self._q[place] = _first_q(place, matrix, rank)
            thin.append((place, gradient, matrix))
        parts = [*(matrix @ self._q[place] for place, _, matrix in thin), *rest]
        sent = _joined(parts, dtype).div_(world)
        yield self.wire.all_reduce(sent)
        averaged = _split(sent, parts)
        for gradient, mean in zip(rest, averaged[len(thin) :], strict=True):
            gradient.copy_(mean)
        if not thin:
            return
        bases = [torch.linalg.qr(p.float())[0] for p in averaged[: len(thin)]]
        parts = [matrix.T @ basis for (_, _, matrix), basis in zip(thin, bases, strict=True)]
        sent = _joined(parts, dtype)
        for (_, _, matrix), basis, q in zip(thin, bases, _split(sent, parts), strict=True):
            matrix.addmm_(basis, q.float().T, alpha=-1)
        sent.div_(world)
        yield self.wire.all_reduce(sent)
        for (place, gradient, _), basis, mean in zip(thin, bases, _split(sent, parts), strict=True):
            q = mean.float()
            gradient.copy_((basis @ q.T).view(-1))
            self._q[place] = torch.linalg.qr(q)[0]

    def snapshot(self) -> State:
        return {**super().snapshot(), "q": dict(self._q)}

    def restore(self, saved: State) -> None:
        super().restore(saved)
        self._q = dict(saved["q"])


def _thin(parameter: nn.Parameter, rank: int) -> tuple[int, int]:
    """Rows of a gradient as a matrix, and the rank of its approximation; 0: it is sent as it is."""
    if parameter.dim() < 2:
        return 1, 0
    # The outermost dimension in memory, whatever the memory format.
    rows = parameter.shape[max(range(parameter.dim()), key=parameter.stride)]
    columns = parameter.numel() // rows
    rank = min(rows, columns, rank)
    return rows, rank if (rows + columns) * rank * _MUST_SAVE < parameter.numel() else 0


def _first_q(place: int, matrix: torch.Tensor, rank: int) -> torch.Tensor:
    """Orthonormal columns, at random, the same on every rank."""
    generator = torch.Generator().manual_seed(place)
    numbers = torch.randn(matrix.shape[1], rank, generator=generator)
    q: torch.Tensor = torch.linalg.qr(numbers)[0]
    return q.to(matrix.device)


def _joined(parts: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    return torch.cat([part.reshape(-1).to(dtype) for part in parts])


def _split(flat: torch.Tensor, like: list[torch.Tensor]) -> list[torch.Tensor]:
    pieces = flat.split([part.numel() for part in like])
    return [piece.view(part.shape) for piece, part in zip(pieces, like, strict=True)]
