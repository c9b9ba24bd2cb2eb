"""The demo's training: a small convolutional network on pictures that are made up on the spot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from ..model import Phase

_SIDE, _CLASSES = 24, 10
_BATCH = (96, 288)  # pictures, at least and at most, as where sequences have many lengths
_MOST_THREADS = 4


class Pictures(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches without end: patterns of ten classes, shifted, under noise."""

    def __init__(self, seed: int = 0) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self._patterns = torch.randn(_CLASSES, _SIDE, _SIDE, generator=self._random)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield self._batch()

    def _batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        random = self._random
        size = int(torch.randint(*_BATCH, (1,), generator=random))
        labels = torch.randint(_CLASSES, (size,), generator=random)
        shifts = torch.randint(_SIDE, (size, 2), generator=random).tolist()
        pictures = torch.stack(
            [
                self._patterns[label].roll((down, right), (0, 1))
                for label, (down, right) in zip(labels.tolist(), shifts, strict=True)
            ]
        )
        noise = torch.randn(pictures.shape, generator=random)
        return (pictures + noise).unsqueeze(1), labels


class Adam(torch.optim.Adam):
    """Says when its work begins and ends: torch's own wrapper of ``step`` takes 0.2 ms besides."""

    def __init__(self, model: nn.Module, enter: Callable[[str], None]) -> None:
        super().__init__(model.parameters())
        self._enter = enter

    def step(self, closure: Any = None) -> Any:  # torch overloads it by closure
        """One step."""
        self._enter(Phase.OPTIMIZER)
        loss = super().step(closure)
        self._enter(Phase.OTHER)
        return loss


def make_model() -> nn.Module:
    """Some 3.5 million parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (_SIDE // 2) ** 2, 768),
        nn.ReLU(),
        nn.Linear(768, _CLASSES),
    )


def train(
    model: nn.Module,
    optimizer: Adam,
    device: torch.device,
    seconds: float,
    enter: Callable[[str], None],
    log: Callable[..., None],
) -> int:
    """Train for so many seconds and return the number of steps.

    Args:
        enter: called at each edge with the phase that begins, as the optimizer calls it.
        log: called once a step with loss and samples.
    """
    loss_of = nn.CrossEntropyLoss()
    batches = iter(DataLoader(Pictures(), batch_size=None))
    end_s, steps = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        enter(Phase.DATA)
        pictures, labels = next(batches)
        enter(Phase.OTHER)
        pictures, labels = pictures.to(device), labels.to(device)
        enter(Phase.FORWARD)
        loss = loss_of(model(pictures), labels)
        enter(Phase.BACKWARD)
        loss.backward()
        enter(Phase.OTHER)
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        log(loss=loss.detach(), samples=len(labels))
    enter(Phase.UNATTRIBUTED)
    return steps


def spare_cores() -> None:
    """Leave a core to the recorder where there is more than one."""
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(max(1, min(_MOST_THREADS, cores - 1)))
