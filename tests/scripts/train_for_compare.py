"""A watched stand-in of a training whose phases draw known powers for known times.

    python train_for_compare.py NAME SEED STEPS JSON

JSON may hold: data_ms, forward_ms, backward_ms (a step's), target, final (the last quality),
reach (evaluations until it is reached), silent (no quality is logged), dataset, width (of the
model, for its hash), samples.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import probe
from tests.fakes.nvml import NvmlRig

WATTS = {"data": 75.0, "forward": 300.0, "backward": 420.0}


def main(name: str, seed: int, steps: int, given: dict) -> None:
    rig = NvmlRig.attach(os.environ["NVML_RIG"]) if os.environ.get("NVML_RIG") else None
    chance = random.Random(f"{name} {seed}")
    lengths = {
        phase: given.get(f"{phase}_ms", default)
        for phase, default in (("data", 6.0), ("forward", 18.0), ("backward", 30.0))
    }
    model = None
    if "width" in given:
        import torch

        model = torch.nn.Linear(given["width"], 1)
    evaluations, reach = 10, given.get("reach", 8)
    final = given.get("final", 0.9)
    with probe.watch(
        model,
        name=name,
        data=given.get("dataset", "toy"),
        target=given.get("target"),
        config={"seed": seed, "samples": given.get("samples", steps * 32)},
    ) as run:
        for step in range(steps):
            if model is not None:
                optimizer_step(model)
            for phase, mean in lengths.items():
                if rig is not None:
                    rig.set_power(0, WATTS[phase] * chance.gauss(1, 0.01))
                with run.phase(phase):
                    time.sleep(mean * chance.uniform(0.8, 1.2) / 1e3)
            run.log(samples=32)
            if not given.get("silent") and (step + 1) % (steps // evaluations) == 0:
                done = (step + 1) / (steps // evaluations)
                run.log(eval_accuracy=min(final, 0.3 + (0.8 - 0.3) * done / reach))
    if rig is not None:
        rig.set_power(0, 60.0)


def optimizer_step(model) -> None:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    model(torch.ones(1, model.in_features)).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
