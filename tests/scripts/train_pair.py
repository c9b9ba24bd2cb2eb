"""Pairs of real trainings, of which the other side is cheaper in three phases.

    python train_pair.py KIND RUNS CLASSIFY

KIND is cnn, gpt, lstm, two_models or ranks. The sides take turns, so that an hour in which the
machine is slower belongs to both. The base waits for its data, computes its activations
again in backward and steps weight by weight; ``other`` does none of that. Models, data and numbers
of steps are the same, so all of the gain is in data, recompute and optimizer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import probe

STEPS, BATCH, WAIT_S = 80, 16, 0.0005


class Samples(Dataset[Any]):
    """Random samples; the base's take a moment each."""

    def __init__(self, shape: tuple[int, ...], words: int, wait_s: float):
        made = torch.Generator().manual_seed(0)
        size = STEPS * BATCH
        self._inputs = (
            torch.randint(0, words, (size, *shape), generator=made)
            if words
            else torch.randn(size, *shape, generator=made)
        )
        self._labels = torch.randint(0, 10, (size,), generator=made)
        self._wait_s = wait_s

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, place: int) -> Any:
        time.sleep(self._wait_s)
        return self._inputs[place], self._labels[place]


class Stack(nn.Module):
    """Blocks one after the other, then a head; ``again``: each block is computed again."""

    def __init__(self, first: nn.Module, blocks: list[nn.Module], head: nn.Module, again: bool):
        super().__init__()
        self.first, self.blocks, self.head = first, nn.ModuleList(blocks), head
        self._again = again

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self._again else block(x)
        return self.head(x)


class Recurrent(nn.Module):
    """A sequence through an LSTM."""

    def __init__(self, width: int):
        super().__init__()
        self.cell = nn.LSTM(width, width, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.cell(x)[0]


class Mean(nn.Module):
    """Over the places of a sequence or an image."""

    def forward(self, x: Any) -> Any:
        return x.mean(1) if x.dim() == 3 else x.mean((2, 3))


def cnn(again: bool) -> Stack:
    blocks = [
        nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        for _ in range(6)
    ]
    head = nn.Sequential(Mean(), nn.Linear(32, 10))
    return Stack(nn.Conv2d(3, 32, 3, padding=1), list(blocks), head, again)


def gpt(again: bool) -> Stack:
    blocks = [
        nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True) for _ in range(4)
    ]
    return Stack(
        nn.Embedding(100, 64), list(blocks), nn.Sequential(Mean(), nn.Linear(64, 10)), again
    )


def lstm(again: bool) -> Stack:
    blocks = [Recurrent(64) for _ in range(3)]
    head = nn.Sequential(Mean(), nn.Linear(64, 10))
    return Stack(nn.Embedding(100, 64), list(blocks), head, again)


KINDS: dict[str, tuple[Callable[[bool], Stack], tuple[int, ...], int]] = {
    "cnn": (cnn, (3, 16, 16), 0),
    "gpt": (gpt, (48,), 100),
    "lstm": (lstm, (48,), 100),
    "two_models": (cnn, (3, 16, 16), 0),
    "ranks": (cnn, (3, 16, 16), 0),
}


def main(kind: str, runs: int, classify: bool) -> None:
    torch.set_num_threads(1)
    if kind == "ranks":
        torch.distributed.init_process_group("gloo")
    # The first run of a process loads what the others find loaded.
    for is_base in (True, False):
        train(kind, "warm", 0, is_base=is_base, classify=classify)
    for seed in range(runs):
        for is_base in (True, False):
            side = "base" if is_base else "other"
            train(kind, f"{kind}-{side}", seed, is_base=is_base, classify=classify)
    if kind == "ranks":
        torch.distributed.destroy_process_group()


def train(kind: str, name: str, seed: int, *, is_base: bool, classify: bool) -> None:
    make, shape, words = KINDS[kind]
    torch.manual_seed(seed)
    models: list[Any] = [make(is_base) for _ in range(2 if kind == "two_models" else 1)]
    optimizers = [torch.optim.AdamW(each.parameters(), foreach=not is_base) for each in models]
    if kind == "ranks":
        models = [nn.parallel.DistributedDataParallel(each) for each in models]
    data = Samples(shape, words, WAIT_S if is_base else 0.0)
    loader = DataLoader(data, batch_size=BATCH)
    with probe.watch(
        models, optimizers, name=name, config={"seed": seed}, data="random", classify=classify
    ) as run:
        for inputs, labels in loader:
            for _ in steps(models, optimizers, inputs, labels):
                pass
            run.log(samples=len(labels))


def steps(models: list[Any], optimizers: list[Any], x: Any, labels: Any) -> Iterator[None]:
    """One model learns the labels; a second one learns what the first one says."""
    for place, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
        output = model(x)
        if place == 0:
            loss, target = functional.cross_entropy(output, labels), output.detach()
        else:
            loss = functional.mse_loss(output, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


if __name__ == "__main__":
    assert os.environ.get("PROBE_DIR"), "say where the runs go: PROBE_DIR"
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
