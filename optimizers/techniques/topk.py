"""Top-k sparsification: each rank sends its largest entries, the rest waits (Lin et al. 2018).

What is not sent is kept and added to the next step's gradient (error feedback), without which it
does not converge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict

import torch
import torch.distributed as dist
from torch import nn

from ..comm_bytes import Hook, Wire
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base


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

        def make(model: nn.Module, wire: Wire) -> tuple[Any, Hook]:
            return _State(self.share, model), wire.counted(_hook, _sent)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        return f"{self.share:.0%} of each gradient's entries, 8 bytes each with its place"


class Unsent(TypedDict):
    """What a rank has not sent yet, by the parameter's place in the model."""

    left: dict[int, torch.Tensor]


class _State:
    """What every parameter's gradient has not sent yet.

    DDP puts parameters into other buckets after the first step, so nothing is kept, or chosen, by
    bucket.
    """

    def __init__(self, share: float, model: nn.Module):
        self._share = share
        self._place = {id(p): i for i, p in enumerate(model.parameters())}
        self.left: dict[int, torch.Tensor] = {}

    def count(self, numbers: int) -> int:
        return max(1, int(self._share * numbers))

    def add_rest(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Add the unsent rest to the gradient, in place; returns the tensor for the next rest."""
        flat = gradient.view(-1)
        left = self.left.setdefault(self._place[id(parameter)], torch.zeros_like(flat))
        flat.add_(left)
        return left

    def snapshot(self) -> Unsent:
        """What a resumed run needs."""
        return {"left": dict(self.left)}

    def restore(self, saved: Unsent) -> None:
        """Go on from :meth:`snapshot`."""
        self.left = dict(saved["left"])


def _sent(state: _State, bucket: Any) -> int:
    numbers = sum(state.count(gradient.numel()) for gradient in bucket.gradients())
    return int(numbers * (bucket.buffer().element_size() + 4))


def _hook(state: _State, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    buffer: torch.Tensor = bucket.buffer()
    world = dist.get_world_size()
    chosen, begin = [], 0
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        left = state.add_rest(parameter, gradient)
        flat = gradient.view(-1)
        place = torch.topk(flat.abs(), state.count(len(flat)), sorted=False).indices
        left.copy_(flat)
        left[place] = 0
        chosen.append(place + begin)
        begin += len(flat)
    place = torch.cat(chosen)
    value = buffer[place]
    places = [torch.empty_like(place, dtype=torch.int32) for _ in range(world)]
    values = [torch.empty_like(value) for _ in range(world)]
    dist.all_gather(places, place.to(torch.int32))
    work = dist.all_gather(values, value, async_op=True)

    def gather(_done: Any) -> torch.Tensor:
        buffer.zero_()
        for index, numbers in zip(places, values, strict=True):
            buffer.index_add_(0, index.long(), numbers)
        return buffer.div_(world)

    assert work is not None
    future: torch.futures.Future[torch.Tensor] = work.get_future().then(gather)
    return future
