"""Batches in an order that depends on the seed and on the samples consumed, on nothing else.

So a resumed run continues with the very next sample, for every k and every place it stopped at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.data import DataLoader, Dataset, Sampler

from ..errors import DataProblem
from ..plan import Plan


class Order(Sampler[list[int]]):
    """Indices of one rank, batch by batch: every epoch a new permutation, without a last part.

    A batch of |B| samples is cut among the ranks, so that the samples of a step are the same on
    one rank and on eight.
    """

    def __init__(self, length: int, batch_size: int, *, rank: int, world: int, seed: int):
        self._length, self._batch, self._seed = length, batch_size, seed
        self._rank, self._world = rank, world
        self.consumed = 0  # samples over all ranks, where the next iteration begins
        self.per_epoch = length // batch_size * batch_size

    def __iter__(self) -> Iterator[list[int]]:
        """Batch after batch, without end."""
        epoch, at = divmod(self.consumed, self.per_epoch)
        per_rank = self._batch // self._world
        while True:
            source = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(self._length, generator=source).tolist()
            for begin in range(at, self.per_epoch, self._batch):
                first = begin + self._rank * per_rank
                yield order[first : first + per_rank]
            epoch, at = epoch + 1, 0


class Batches:
    """An endless iterator over a data set, and where in it the training stands."""

    def __init__(self, data: Dataset[Any], plan: Plan, *, rank: int, seed: int):
        """Check the data set.

        Raises:
            DataProblem: it is empty, or smaller than a batch; ranks cannot share a batch evenly.
        """
        try:
            length = len(data)  # type: ignore[arg-type]
        except TypeError:
            raise DataProblem("the data set has no length: give a map-style data set") from None
        if length < plan.batch_size:
            what = "is empty" if not length else f"holds {length} samples"
            raise DataProblem(
                f"the data set {what}, a batch is {plan.batch_size}: "
                "lower batch_size or check the data"
            )
        if plan.batch_size % plan.world:
            raise DataProblem(
                f"a batch of {plan.batch_size} cannot be cut among {plan.world} "
                "ranks: make batch_size a multiple"
            )
        self._order = Order(length, plan.batch_size, rank=rank, world=plan.world, seed=seed)
        self._batch = plan.batch_size
        # With its own generator: what workers draw must not move the training's random numbers.
        source = torch.Generator().manual_seed(seed)
        self._loader: DataLoader[Any] = DataLoader(
            data, batch_sampler=self._order, generator=source, **plan.loader
        )
        self._iterator: Iterator[Any] | None = None
        self.consumed = 0

    def __next__(self) -> Any:
        if self._iterator is None:
            self._order.consumed = self.consumed
            self._iterator = iter(self._loader)
        batch = next(self._iterator)
        self.consumed += self._batch
        return batch

    def resume(self, consumed: int) -> None:
        """Go on after so many samples."""
        self.consumed, self._iterator = consumed, None


def moved(batch: Any, device: str) -> Any:
    """The batch on a device; on a CPU as it is."""
    if device == "cpu":
        return batch
    return tree_map_only(torch.Tensor, lambda t: t.to(device, non_blocking=True), batch)
