"""Post-local SGD: ranks step on their own and average their weights at times (Lin et al. 2020).

With torch's hook. Its averager is not used: it gives weights a new layout in memory, and DDP then
mistakes the gradients of those that were in another (channels_last). Only weights are averaged;
each rank keeps its own optimizer state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook

from ..comm_bytes import Wire, size
from ..communication import Averaged, Bucket, Communication, State
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange, refuse_scaled_loss


@dataclass(frozen=True)
class LocalSGD(Base):
    """After ``start`` usual steps, the first step and every ``period``-th from it average weights.

    Gradients are averaged within groups of ``group`` ranks with consecutive numbers.
    """

    name: ClassVar[str] = "local_sgd"
    conflicts: ClassVar[frozenset[str]] = only_exchange("local_sgd")
    after: ClassVar[frozenset[str]] = frozenset({"accumulation", "clipping", "precision"})

    period: int = 4
    start: int = 10
    group: int = 1

    def plan(self, plan: Plan) -> Plan:
        if self.period < 2 or self.start < 0:
            raise TechniqueRefused(f"local_sgd: period={self.period} ≥ 2, start={self.start} ≥ 0")
        if self.group < 1:
            raise TechniqueRefused(f"local_sgd: group={self.group} ranks: at least 1")
        if plan.world == 1:
            return plan.note("local_sgd: one rank, nothing crosses a wire")
        if plan.world % self.group or plan.world == self.group:
            raise TechniqueRefused(
                f"local_sgd: {plan.world} ranks cannot be divided into two groups or more of "
                f"{self.group}: set group to a smaller divisor"
            )
        if plan.accumulation.adaptive:
            raise TechniqueRefused(
                "local_sgd does not go with an adaptive accumulation: no rank has the norm of "
                "the averaged gradient, so each would choose a k of its own; use a fixed k"
            )
        refuse_scaled_loss(self.name, plan)
        plan = plan.note("local_sgd: between two averages rank 0's weights are evaluated")
        if plan.clip_norm is not None:
            plan = plan.note("local_sgd: clipping takes the norm of a group's own gradient")

        def make(_model: nn.Module, wire: Wire) -> Communication:
            return _Averages(wire, self)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.world == 1:
            return "nothing on one rank"
        return f"communication ÷ {self.period} after {self.start} steps; steps that differ by rank"


class _Averages(Communication):
    ranks_differ = True

    def __init__(self, wire: Wire, settings: LocalSGD):
        self.wire = wire
        several = settings.group > 1
        subgroup = dist.new_subgroups(settings.group)[0] if several else None
        self._state = post_localSGD_hook.PostLocalSGDState(
            None, subgroup, settings.start, post_local_gradient_allreduce=several
        )
        self._settings = settings
        self._step = 0  # steps that are over

    def average(self, bucket: Bucket) -> Averaged:
        state, bytes_ = self._state, size(bucket.buffer())
        self.wire.whole += bytes_
        if state.iter < state.start_localSGD_iter or state.post_local_gradient_allreduce:
            self.wire.sent += bytes_
        averaged: Averaged = post_localSGD_hook.post_localSGD_hook(state, bucket)
        return averaged

    def after_step(self, weights: Sequence[nn.Parameter]) -> None:
        local = self._step - self._settings.start
        self._step += 1
        if local < 0 or local % self._settings.period:
            return
        with torch.no_grad():
            flat = torch.cat([weight.reshape(-1) for weight in weights])
            self.wire.all_reduce(flat.div_(dist.get_world_size())).wait()
            means = flat.split([weight.numel() for weight in weights])
            for weight, mean in zip(weights, means, strict=True):
                weight.copy_(mean.view(weight.shape))

    def snapshot(self) -> State:
        return {"step": self._step, "exact": self._state.iter}

    def restore(self, saved: State) -> None:
        self._step, self._state.iter = saved["step"], saved["exact"]
