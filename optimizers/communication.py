"""Replacements for DDP's all-reduce of gradients.

Ranks match collectives by their order. A callback of torch's futures runs in a thread of the
backend as soon as its bucket is there, which is not the same bucket on every rank. Where it starts
a collective of its own, as in torch's PowerSGD, it may meet another bucket's on another rank: gloo
aborts if their sizes differ. So nothing here starts a collective in a callback.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist
from torch import nn

from .comm_bytes import Wire, size

Averaged = torch.futures.Future[torch.Tensor]
Rounds = Generator[dist.Work | None, None, None]
State = dict[str, Any]  # tensors and numbers: it is loaded with weights_only


class Bucket(Protocol):
    """What is used here of torch's ``GradBucket``."""

    def index(self) -> int:
        """0, 1, … in the order in which the hook is called."""

    def is_last(self) -> bool:
        """True for the last one of a step."""

    def buffer(self) -> torch.Tensor:
        """The gradients, flat, one after the other."""

    def parameters(self) -> list[nn.Parameter]:
        """Whose gradients they are, in the order of the buffer."""


class Communication(Protocol):
    """How the gradients of a step get from rank to rank: DDP's hook, and what belongs to it."""

    ranks_differ: ClassVar[bool] = False  # in weights and optimizer state, between steps

    @abstractmethod
    def average(self, bucket: Bucket) -> Averaged:
        """The bucket's buffer, its gradients averaged over the ranks."""

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Raise TechniqueRefused if the optimizer does not suit such gradients."""
        return

    def after_step(self, weights: Sequence[nn.Parameter]) -> None:
        """The optimizer has stepped ``weights``, and their gradients are still there."""
        return

    def snapshot(self) -> State:
        """What a resumed run needs of this rank."""
        return {}

    def restore(self, saved: State) -> None:
        """Go on from :meth:`snapshot`."""
        return


@dataclass(slots=True)
class _Exchange:
    """A bucket that is under way."""

    rounds: Rounds
    work: dist.Work | None
    buffer: torch.Tensor
    averaged: Averaged


class InRounds(Communication):
    """Collectives in rounds, in the same order on all ranks.

    DDP calls its hook for bucket 0, 1, … on every rank, and there the first round starts: it
    overlaps with backward. The others follow after the last bucket: the second round of bucket 0,
    1, …, the third of bucket 0, 1, …
    """

    def __init__(self, wire: Wire):
        self.wire = wire
        self.step = 0  # steps that are over
        self._exchanges: list[_Exchange] = []

    @abstractmethod
    def rounds(self, bucket: Bucket) -> Rounds:
        """Average a bucket in place.

        Yields:
            The collective that must be over before the next round. None: this rank has none in this
            round, and waits for the last bucket only.
        """

    def average(self, bucket: Bucket) -> Averaged:
        buffer = bucket.buffer()
        self.wire.whole += size(buffer)
        averaged: Averaged = torch.futures.Future(
            devices=[buffer.device] if buffer.is_cuda else None
        )
        rounds = self.rounds(bucket)
        self._exchanges.append(_Exchange(rounds, next(rounds, None), buffer, averaged))
        if bucket.is_last():
            self._finish()
        return averaged

    def _finish(self) -> None:
        under_way, self._exchanges = self._exchanges, []
        while under_way:
            not_over = []
            for exchange in under_way:
                if exchange.work is not None:
                    exchange.work.wait()
                try:
                    exchange.work = next(exchange.rounds)
                except StopIteration:
                    exchange.averaged.set_result(exchange.buffer)
                else:
                    not_over.append(exchange)
            under_way = not_over
        self.step += 1

    def snapshot(self) -> State:
        return {"step": self.step}

    def restore(self, saved: State) -> None:
        self.step = saved["step"]


def hook(communication: Communication, bucket: Bucket) -> Averaged:
    """What DDP registers, with ``communication`` as its state."""
    return communication.average(bucket)


hook.__annotations__ = {}  # DDP compares them with classes, ours are strings


def flat_gradients(bucket: Bucket) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
    """Each parameter with its gradient, a flat view in the order of memory."""
    begin, buffer = 0, bucket.buffer()
    for parameter in bucket.parameters():
        end = begin + parameter.numel()
        yield parameter, buffer[begin:end]
        begin = end
