"""Bytes that gradients of this rank put on the wire, counted where they are sent.

A ring all-reduce of N bytes sends 2 N (R−1)/R per rank, an all-gather N (R−1): what is counted is
the payload N, which is what compression changes, and it is called that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


@dataclass
class Wire:
    """Payload of collectives, and its size without compression, in bytes.

    The collectives here count what they are given and are not waited for. Ranks must call them in
    the same order.
    """

    sent: int = 0
    whole: int = 0

    def all_reduce(self, numbers: torch.Tensor, group: Any = None) -> dist.Work:
        """Sum ``numbers`` over the ranks of ``group`` (None: all), in place."""
        self.sent += size(numbers)
        return _started(dist.all_reduce(numbers, group=group, async_op=True))

    def all_gather(self, message: torch.Tensor) -> tuple[list[torch.Tensor], dist.Work]:
        """The messages of all ranks, equally long, in the order of their numbers."""
        self.sent += size(message)
        messages = [torch.empty_like(message) for _ in range(dist.get_world_size())]
        return messages, _started(dist.all_gather(messages, message, async_op=True))

    def reduce(self, numbers: torch.Tensor, to: int, group: Any) -> dist.Work:
        """Sum ``numbers`` over ``group`` at rank ``to``, in place; the others' become undefined."""
        if dist.get_rank() != to:
            self.sent += size(numbers)
        return _started(dist.reduce(numbers, to, group=group, async_op=True))

    def broadcast(self, numbers: torch.Tensor, of: int, group: Any) -> dist.Work:
        """Rank ``of``'s numbers, on all ranks of ``group``, in place."""
        if dist.get_rank() == of:
            self.sent += size(numbers)
        return _started(dist.broadcast(numbers, of, group=group, async_op=True))


def size(numbers: torch.Tensor) -> int:
    """Bytes of a tensor's elements."""
    return numbers.numel() * numbers.element_size()


def _started(work: dist.Work | None) -> dist.Work:
    if work is None:  # torch answers so outside the group
        raise RuntimeError("this rank is not in the group of a collective that it called")
    return work
