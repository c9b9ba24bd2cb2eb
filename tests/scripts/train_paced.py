"""A training whose phases draw known power: every part sets the rig's power and takes its time.

python train_paced.py SECONDS SEED [STAMPS.json]

with NVML_RIG set; watches itself into $PROBE_DIR. STAMPS.json gets [time in ns, phase that begins],
and as ``drawn`` [phase, begin, end] in ns of what each phase draws: its edges lie around.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

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


def train(
    draw: Callable[[str], None],
    seconds: float,
    name: str | None = None,
    stamp: Callable[[str], None] = lambda phase: None,
) -> None:
    """A watched training whose every part is ``draw``n; it says its run's id first.

    Args:
        stamp: called with a phase's name where the training itself knows that it begins.
    """

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
    optimizer.register_step_pre_hook(lambda *_: stamp("optimizer"))
    optimizer.register_step_pre_hook(lambda *_: draw("optimizer"))
    optimizer.register_step_post_hook(lambda *_: stamp("other"))
    with probe.watch(model, optimizer, name=name) as run:
        print(run.path.name, flush=True)
        await_recorder(run.path)
        stamp("data")
        for x in torch.utils.data.DataLoader(Batches(), batch_size=None):
            stamp("forward")
            loss = model(x).square().mean()
            loss.register_hook(lambda gradient: draw("backward") or gradient)
            stamp("backward")
            loss.backward()
            stamp("other")
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss, samples=len(x))
            stamp("data")
        stamp("other")


def main(seconds: float, seed: int, stamps_file: str | None = None) -> None:
    rig = NvmlRig.attach(os.environ["NVML_RIG"])
    chance = random.Random(seed)
    factor = {name: chance.uniform(0.7, 1.3) for name in PARTS}

    def draw(name: str) -> None:
        milliseconds, cv, watts = PARTS[name]
        begin_ns = time.monotonic_ns()
        rig.set_power(0, watts * factor[name] * chance.gauss(1.0, 0.02))
        time.sleep(max(0.3, milliseconds * chance.gauss(1.0, cv)) / 1e3)
        drawn.append((name, begin_ns, time.monotonic_ns()))

    drawn: list[tuple[str, int, int]] = []
    stamps: list[tuple[int, str]] = []
    train(draw, seconds, stamp=lambda phase: stamps.append((time.monotonic_ns(), phase)))
    rig.set_power(0, 60.0)
    if stamps_file:
        Path(stamps_file).write_text(json.dumps({"stamps": stamps, "drawn": drawn}))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
