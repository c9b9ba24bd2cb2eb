"""A small network and the loop that trains it, in the variants that stacks are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.fakes.phase_recording import Watched

N = 6
LOSS = nn.CrossEntropyLoss()
BACKEND = "aot_eager"  # dynamo and autograd as in production, without a compiler run


class Net(nn.Module):
    def __init__(self, checkpointed: str = ""):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(64, 10)
        self.checkpointed = checkpointed

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            if self.checkpointed:
                x = checkpoint(
                    lambda y, layer=layer: torch.relu(layer(y)),
                    x,
                    use_reentrant=self.checkpointed == "reentrant",
                )
            else:
                x = torch.relu(layer(x))
        return self.head(x)


def loader(batch: int = 16, batches: int = 64) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(batch * batches, 64), torch.randint(0, 10, (batch * batches,)))
    return DataLoader(data, batch_size=batch)


def train(
    model: Any,
    optimizer: Any,
    *,
    steps: int = N,
    k: int = 1,
    scaler: Any = None,
    dtype: Any = None,
    no_sync: Any = None,
    clip: bool = True,
    step: Any = None,
) -> None:
    batches = iter(loader())
    for _ in range(steps):
        for j in range(k):
            x, y = next(batches)
            if getattr(model, "checkpointed", "") == "reentrant":
                x.requires_grad_(True)
            quiet = no_sync() if no_sync and j < k - 1 else contextlib.nullcontext()
            with quiet:
                with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                    loss = LOSS(model(x), y) / k
                (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            (step or optimizer.step)()
        optimizer.zero_grad()


def breaks() -> int:
    return sum(torch._dynamo.utils.counters["graph_break"].values())


def expect(run: Watched, steps: int = N, micro: int = 1) -> None:
    assert run.steps == steps, run.sequence()
    assert run.micros == [micro] * steps
    assert run.counts["backward"] == steps * micro
    assert run.counts["optimizer"] == steps
    assert run.counts["forward"] >= steps
    assert not run.inferred


@contextlib.contextmanager
def process_group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()
