"""All-reduce in two tiers: within each group of ranks, then between their leaders.

Goyal et al. 2017 ("Accurate, Large Minibatch SGD", §4) sum within a server, all-reduce between
servers and broadcast within a server: what is slow between servers carries one gradient per server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import ClassVar

import torch.distributed as dist
from torch import nn

from ..comm_bytes import Wire
from ..communication import Bucket, Communication, InRounds, Rounds
from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import Base, only_exchange


@dataclass(frozen=True)
class Hierarchical(Base):
    """``group`` ranks with consecutive numbers; None: those that the launcher started on a host."""

    name: ClassVar[str] = "hierarchical"
    conflicts: ClassVar[frozenset[str]] = only_exchange("hierarchical")

    group: int | None = None

    def plan(self, plan: Plan) -> Plan:
        group = self.group
        if group is None:
            group = int(os.environ.get("LOCAL_WORLD_SIZE", plan.world))
        if group < 1 or plan.world % group:
            raise TechniqueRefused(
                f"hierarchical: {plan.world} ranks cannot be divided into groups of {group}: "
                "set group to a divisor"
            )
        if group in (1, plan.world):
            return plan.note(f"hierarchical: no second tier with groups of {group}: left to DDP")

        def make(_model: nn.Module, wire: Wire) -> Communication:
            return _TwoTiers(wire, group)

        return replace(plan, compression=make)

    def predicts(self, plan: Plan) -> str:
        if plan.compression is None:
            return "nothing without a second tier of ranks"
        return "one gradient per group crosses the slow links, not one per rank"


class _TwoTiers(InRounds):
    """Three rounds: a sum at the leader, the lowest number of its group; between leaders; back."""

    def __init__(self, wire: Wire, group: int):
        super().__init__(wire)
        self._group, _ = dist.new_subgroups(group)
        self._leaders = dist.new_group(list(range(0, dist.get_world_size(), group)))
        self._leader = dist.get_rank() // group * group

    def rounds(self, bucket: Bucket) -> Rounds:
        buffer = bucket.buffer().div_(dist.get_world_size())
        yield self.wire.reduce(buffer, self._leader, self._group)
        leads = dist.get_rank() == self._leader
        yield self.wire.all_reduce(buffer, self._leaders) if leads else None
        yield self.wire.broadcast(buffer, self._leader, self._group)
