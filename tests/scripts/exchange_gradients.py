"""What ranks do for test_exchanges.py: ``torchrun exchange_gradients.py FOLDER CASES``.

Every rank writes ``FOLDER/<rank>.npz``. CASES is JSON, see ``main``.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from optimizers import Stack
from optimizers.plan import Plan
from optimizers.stack import discover
from optimizers.techniques import precision
from optimizers.techniques.accumulation import GradientAccumulation, pieces
from optimizers.techniques.overlap import Overlap
from optimizers.techniques.precision import MixedPrecision
from optimizers.training.engines.plain import PlainEngine
from optimizers.training.ranks import leaving
from tests.unit.optimizers.models import CLASSES, WIDTH, loss, samples

BATCH, HIDDEN, BUCKET_MB = 32, 64, 0.005
SHAPES = ((24, 20), (10,), (8, 4, 3, 3), (3, 5), (300,))  # the third in channels_last


def gradients(rank, step):
    """What this rank's backward finds in this step, one array per shape."""
    draw = np.random.default_rng(1000 * rank + step)
    return [draw.standard_normal(shape).astype(np.float32) for shape in SHAPES]


class Linear(nn.Module):
    """Its gradients are what it is called with."""

    def __init__(self):
        super().__init__()
        weights = [torch.zeros(shape) for shape in SHAPES]
        weights[2] = weights[2].contiguous(memory_format=torch.channels_last)
        self.weights = nn.ParameterList(weights)

    def forward(self, factors):
        return sum(
            (w * torch.from_numpy(f)).sum() for w, f in zip(self.weights, factors, strict=True)
        )


class Watched:
    """How many buckets a step has, at most."""

    def __init__(self, engine):
        self.buckets = 0
        communication = engine._communication
        average = communication.average

        def counting(bucket):
            self.buckets = max(self.buckets, bucket.index() + 1)
            return average(bucket)

        communication.average = counting


def sgd(parameters, *, lr):
    return torch.optim.SGD(parameters, lr=lr)


def adamw(parameters, *, lr):
    return torch.optim.AdamW(parameters, lr=lr)


def plan_of(case, lr):
    techniques = [discover()[case["technique"]](**case["settings"]), Overlap(BUCKET_MB)]
    if case.get("k", 1) > 1:
        techniques.append(GradientAccumulation(k=case["k"]))
    if case.get("half"):
        techniques.append(MixedPrecision("bf16", "master"))
    world = dist.get_world_size()
    return Stack(techniques).plan(Plan(world=world, batch_size=BATCH * world, lr=lr))


def exchange(case, folder):
    """The gradients that the optimizer gets, and the weights after it, step by step.

    Before step ``stop`` a new engine takes over from a snapshot.
    """
    plan = plan_of({**case, "k": 1}, 1.0)
    engine, rank = PlainEngine(Linear(), plan, sgd), dist.get_rank()
    averaged, weights, sent = [], [], []
    for step in range(case["steps"]):
        if step == case["stop"]:
            engine.save(folder)
            dist.barrier()
            before, engine = engine, PlainEngine(Linear(), plan, sgd)
            engine.load(folder, same_ranks=True)
            engine.wire.sent, engine.wire.whole = before.wire.sent, before.wire.whole
        with engine.micro_batch(last=True):
            engine.backward(engine.model(gradients(rank, step)))
        averaged.append([p.grad.clone() for p in engine.module.parameters()])
        engine.step(want_norm=False)
        weights.append([p.detach().clone() for p in engine.module.parameters()])
        sent.append(engine.wire.sent)
    exchanged = {"sent": sent, "whole": engine.wire.whole}
    for name, values in (("averaged", averaged), ("weights", weights)):
        for i in range(len(SHAPES)):
            exchanged[f"{name}{i}"] = np.stack([step[i].numpy() for step in values])
    return exchanged


def network():
    torch.manual_seed(0)
    widths = (WIDTH, HIDDEN, HIDDEN, HIDDEN, HIDDEN, CLASSES)
    layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*layers[:-1], nn.Linear(HIDDEN, CLASSES))


def train(case, _folder):
    """Losses of a training, and how far ranks' weights were apart after each step."""
    world, rank, k = dist.get_world_size(), dist.get_rank(), case["k"]
    engine = PlainEngine(network(), plan_of(case, 1e-2), adamw)
    watched = Watched(engine)
    data = samples(1024, seed=2).tensors
    order = torch.Generator().manual_seed(3)
    losses, apart = [], []
    for _ in range(case["steps"]):
        drawn = torch.randint(0, 1024, (BATCH * world,), generator=order)
        batch = tuple(part[drawn] for part in data)
        mean = torch.zeros(())
        for j, piece in enumerate(pieces(pieces(batch, world)[rank], k)):
            with engine.micro_batch(last=j == k - 1):
                value = loss(engine.model, piece) / k
                engine.backward(value)
            mean += value.detach()
        engine.step(want_norm=False)
        dist.all_reduce(mean)
        losses.append(float(mean) / world)
        apart.append(_apart(engine.module))
    return {
        "losses": losses,
        "apart": apart,
        "sent": engine.wire.sent,
        "whole": engine.wire.whole,
        "buckets": watched.buckets,
    }


def _apart(module):
    flat = torch.cat([p.detach().flatten().float() for p in module.parameters()])
    every = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(every, flat)
    return max(float((flat - other).abs().max()) for other in every)


def main(folder, cases):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with leaving():
        results = {}
        for name, case in cases.items():
            values = {"exchange": exchange, "train": train}[case["task"]](case, Path(folder))
            results |= {f"{name}/{key}": np.asarray(value) for key, value in values.items()}
        np.savez(Path(folder) / f"{dist.get_rank()}.npz", **results)


if __name__ == "__main__":  # the tests import this module too
    precision.cpu_has_bf16 = lambda: True  # this model is small enough for it on any CPU
    main(sys.argv[1], json.loads(sys.argv[2]))
