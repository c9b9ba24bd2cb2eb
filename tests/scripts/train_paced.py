"""A training whose phases draw known power: every part sets the rig's power and takes its time.

python train_paced.py SECONDS SEED     with NVML_RIG set; watches itself into $PROBE_DIR
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import probe
from tests.fakes.nvml import NvmlRig
from tests.fakes.processes import await_recorder

# Mean milliseconds, CV, watts: a step of about 60 ms.
PARTS = {
    "data": (6.0, 0.6, 120.0),
    "forward": (17.0, 0.05, 430.0),
    "backward": (31.0, 0.05, 500.0),
    "optimizer": (5.0, 0.1, 330.0),
}


def train(draw: Callable[[str], None], seconds: float, name: str | None = None) -> None:
    """A watched training whose every part is ``draw``n; it says its run's id first."""

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                draw("data")
                yield torch.randn(4, 8)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            draw("forward")
            return self.layer(x)

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    optimizer.register_step_pre_hook(lambda *_: draw("optimizer"))
    with probe.watch(model, optimizer, name=name) as run:
        print(run.path.name, flush=True)
        await_recorder(run.path)
        for x in torch.utils.data.DataLoader(Batches(), batch_size=None):
            loss = model(x).square().mean()
            loss.register_hook(lambda gradient: draw("backward") or gradient)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss, samples=len(x))


def main(seconds: float, seed: int) -> None:
    rig = NvmlRig.attach(os.environ["NVML_RIG"])
    chance = random.Random(seed)
    factor = {name: chance.uniform(0.7, 1.3) for name in PARTS}

    def draw(name: str) -> None:
        milliseconds, cv, watts = PARTS[name]
        rig.set_power(0, watts * factor[name] * chance.gauss(1.0, 0.02))
        time.sleep(max(0.3, milliseconds * chance.gauss(1.0, cv)) / 1e3)

    train(draw, seconds)
    rig.set_power(0, 60.0)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
