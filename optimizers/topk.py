"""Top-k sparsification: each rank sends its largest entries, the rest waits (Lin et al. 2018).

What is not sent is kept and added to the next step's gradient (error feedback), without which it
does not converge.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

from .errors import TechniqueRefused
from .plan import Hook, Plan
from .technique import Base
from .wire import Wire


@dataclass(frozen=True)
class TopK(Base):
    """The share of entries that is sent, by magnitude, with their places."""

    name: ClassVar[str] = "topk"
    conflicts: ClassVar[frozenset[str]] = frozenset({"compression", "powersgd", "zero"})

    share: float = 0.05

    def plan(self, plan: Plan) -> Plan:
        if not 0 < self.share <= 1:
            raise TechniqueRefused(f"topk: share={self.share} of the entries: above 0, up to 1")
        if plan.world == 1:
            return plan.note("topk: one rank, nothing crosses a wire")

        def make(_model: nn.Module, wire: Wire) -> tuple[Any, Hook]:
            return _State(self.share), wire.counted(_hook, _sent)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        return f"{self.share:.0%} of the gradient's entries, 8 bytes each with its place"


@dataclass
class _State:
    share: float
    left: dict[int, torch.Tensor] = field(default_factory=dict)  # by bucket: what was not sent

    def count(self, numbers: int) -> int:
        return max(1, int(self.share * numbers))


def _sent(state: _State, bucket: Any) -> int:
    buffer = bucket.buffer()
    return int(state.count(buffer.numel()) * (buffer.element_size() + 4))


def _hook(state: _State, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer()
    world = dist.get_world_size()
    before = state.left.get(bucket.index())
    if before is not None and before.shape == buffer.shape:  # buckets are rebuilt after a step
        buffer.add_(before)
    place = torch.topk(buffer.abs(), state.count(buffer.numel()), sorted=False).indices
    value = buffer[place]
    left = buffer.clone()
    left[place] = 0
    state.left[bucket.index()] = left
    places = [torch.empty_like(place, dtype=torch.int32) for _ in range(world)]
    values = [torch.empty_like(value) for _ in range(world)]
    dist.all_gather(places, place.to(torch.int32))
    work = dist.all_gather(values, value, async_op=True)

    def gather(_done: Any) -> torch.Tensor:
        buffer.zero_()
        for one, numbers in zip(places, values, strict=True):
            buffer.index_add_(0, one.long(), numbers)
        mean: torch.Tensor = buffer.div_(world)
        return mean

    assert work is not None
    future: torch.futures.Future[torch.Tensor] = work.get_future().then(gather)
    return future
