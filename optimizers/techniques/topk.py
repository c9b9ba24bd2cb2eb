"""Top-k sparsification: each rank sends its largest entries, what is not sent is kept.

With the defaults this is Stich et al. 2018 ("Sparsified SGD with Memory"; before it Aji & Heafield
2017), whatever optimizer takes the result. ``momentum``, ``clip`` and ``warmup_steps`` are those
of Deep Gradient Compression (Lin et al. 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import nn

from ..comm_bytes import Wire
from ..communication import Bucket, Communication, Rounds, State
from ..error_feedback import Codec, Gathered
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange, refuse_scaled_loss

_FIRST_SHARE = 0.25  # of the warm-up, as in the paper


@dataclass(frozen=True)
class TopK(Base):
    """The share of entries that is sent, by magnitude, with their places.

    ``clip`` bounds the norm of each rank's gradient to clip/√ranks, before anything is added to it.
    For ``warmup_steps`` the share falls exponentially from 25 %. ``momentum`` is applied before
    entries are chosen, and corrects what waiting does to it; the optimizer must be SGD without
    momentum. AdamW has no such correction: leave ``momentum`` at 0, the other two apply.
    """

    name: ClassVar[str] = "topk"
    conflicts: ClassVar[frozenset[str]] = only_exchange("topk")
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    share: float = 0.05
    momentum: float = 0.0
    clip: float | None = None
    warmup_steps: int = 0

    def plan(self, plan: Plan) -> Plan:
        if not 0 < self.share <= 1:
            raise TechniqueRefused(f"topk: share={self.share} of the entries: above 0, up to 1")
        if not 0 <= self.momentum < 1:
            raise TechniqueRefused(f"topk: momentum={self.momentum}: from 0 to below 1")
        if self.clip is not None and not self.clip > 0:
            raise TechniqueRefused(f"topk: clip={self.clip}: a norm above 0")
        if self.warmup_steps < 0 or (self.warmup_steps and self.share >= _FIRST_SHARE):
            raise TechniqueRefused(
                f"topk: warmup_steps={self.warmup_steps}: 0 or more, and above 0 only with a share "
                f"below {_FIRST_SHARE}, where the warm-up begins"
            )
        if plan.world == 1:
            return plan.note("topk: one rank, nothing crosses a wire")
        refuse_scaled_loss(self.name, plan)

        def make(model: nn.Module, wire: Wire) -> Communication:
            return _Sparse(model, wire, self)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return f"{self.share:.0%} of each gradient's entries, 8 bytes each with its place"

    def share_of(self, step: int) -> float:
        """The share that step 0, 1, … sends."""
        if step >= self.warmup_steps:
            return self.share
        return _FIRST_SHARE * math.pow(self.share / _FIRST_SHARE, step / self.warmup_steps)


class Largest(Codec):
    """Places (int32), then values (fp32)."""

    def __init__(self, share: float):
        self._share = share

    def length(self, count: int) -> int:
        return 8 * max(1, int(self._share * count))

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        places = torch.topk(numbers.abs(), self.length(len(numbers)) // 8, sorted=False).indices
        return torch.cat(
            [places.to(torch.int32).view(torch.uint8), numbers[places].view(torch.uint8)]
        )

    def add(self, message: torch.Tensor, to: torch.Tensor, factor: float) -> None:
        values = message[len(message) // 2 :].view(torch.float32)
        to.index_add_(0, places_of(message), values, alpha=factor)


def places_of(message: torch.Tensor) -> torch.Tensor:
    """Places of the entries in a message of :class:`Largest`."""
    return message[: len(message) // 2].view(torch.int32).long()


class _Sparse(Gathered):
    """DGC's u = m·u + g, v = v + u; entries of v are sent, and cleared in both."""

    def __init__(self, model: nn.Module, wire: Wire, settings: TopK):
        super().__init__(model, wire, Largest(settings.share_of(0)))
        self._settings = settings
        self._velocity: dict[int, torch.Tensor] = {}  # u, by the parameter's place
        self._square: torch.Tensor | None = None  # of this rank's gradient, over its buckets

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._settings.momentum:
            return
        for group in optimizer.param_groups:
            if group.get("momentum") or "betas" in group:
                raise TechniqueRefused(
                    f"topk: momentum={self._settings.momentum} is applied before gradients are "
                    "sent: give the trainer SGD without momentum, or leave it at 0"
                )

    def prepare(self, bucket: Bucket) -> Rounds:
        if bucket.index() == 0:
            self.codec = Largest(self._settings.share_of(self.step))
            self._square = None
        limit = self._settings.clip
        if limit is None:
            return
        buffer = bucket.buffer()
        square = torch.linalg.vector_norm(buffer, dtype=torch.float32).square()
        self._square = square if self._square is None else self._square + square
        yield None  # the norm is that of all buckets
        factor = limit / math.sqrt(dist.get_world_size()) / self._square.sqrt()
        buffer.mul_(factor.clamp(max=1.0))

    def accumulate(self, place: int, gradient: torch.Tensor) -> torch.Tensor:
        if not self._settings.momentum:
            return super().accumulate(place, gradient)
        if place not in self._velocity:
            self._velocity[place] = torch.zeros_like(gradient, dtype=torch.float32)
        velocity = self._velocity[place].mul_(self._settings.momentum).add_(gradient)
        return super().accumulate(place, velocity)

    def encoded(self, place: int, message: torch.Tensor) -> None:
        if self._settings.momentum:
            self._velocity[place][places_of(message)] = 0

    def snapshot(self) -> State:
        return {**super().snapshot(), "velocity": dict(self._velocity)}

    def restore(self, saved: State) -> None:
        super().restore(saved)
        self._velocity = dict(saved["velocity"])
