"""What two ranks do for test_training.py: ``torchrun rank_tasks.py TASK …``.

Rank 0 prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from optimizers import Budget, Stack, Trainer
from optimizers.plan import Plan
from optimizers.techniques import precision
from optimizers.techniques.accumulation import pieces
from optimizers.techniques.zero import Zero
from optimizers.training.engines import make_engine
from optimizers.training.ranks import leaving
from optimizers.training.variance import GradientVariance
from tests.unit.optimizers.models import (
    CLASSES,
    WIDTH,
    Mixed,
    MixedSamples,
    loss,
    samples,
    stacked,
    two_pass,
)

TRAINED, TARGET = 20_000, 0.8
precision.cpu_has_bf16 = lambda: True  # these models are small enough for it on any CPU


def sgd(parameters, *, lr, **_):
    return torch.optim.SGD(parameters, lr=lr)


def variance(stage: str):
    """σ² by hooks against every gradient kept, over k = 4 micro-batches of 2 ranks."""
    world, rank, k = dist.get_world_size(), dist.get_rank(), 4
    plan = Plan(world=world, batch_size=64, lr=0.0)
    if stage != "ddp":
        plan = Stack([Zero(int(stage))]).plan(plan)
    engine = make_engine(stacked(), plan, sgd, 8)
    batches = pieces(samples(64).tensors, world * k)
    meter = GradientVariance(engine.module.parameters(), world)
    meter.arm()
    for j, batch in enumerate(batches[rank * k : (rank + 1) * k]):
        with engine.micro_batch(last=j == k - 1):
            engine.backward(loss(engine.model, batch) / k)
        meter.micro_batch(1 / (k * world), 1 / k)
    stepped = engine.step(want_norm=True)
    measured = meter.result(stepped.norm)
    return {"measured": measured, "truth": two_pass(stacked(), batches)}


def variable(stage: str):
    """Weights after steps of k = 1, 3, 2, 4 against one big batch on one rank."""
    world, rank = dist.get_world_size(), dist.get_rank()
    plan = Plan(world=world, batch_size=48, lr=0.1)
    if stage != "ddp":
        plan = Stack([Zero(int(stage))]).plan(plan)
    engine = make_engine(stacked(), plan, sgd, 8)
    reference = stacked()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for number, k in enumerate((1, 3, 2, 4)):
        whole = samples(48, seed=number).tensors
        loss(reference, whole).backward()
        optimizer.step()
        optimizer.zero_grad()
        piece = pieces(pieces(whole, world)[rank], k)
        for j, batch in enumerate(piece):
            with engine.micro_batch(last=j == k - 1):
                engine.backward(loss(engine.model, batch) * (len(batch[0]) / 24))
        engine.step(want_norm=False)
    off = max(
        float((a.detach().float() - b).abs().max())
        for a, b in zip(engine.module.parameters(), reference.parameters(), strict=True)
    )
    return {"off": off}


def norms():
    """A batch norm's running means after one batch in half precision, and what they must be."""
    world, rank = dist.get_world_size(), dist.get_rank()
    stack = Stack.of("precision(dtype=bf16,mode=master),zero")
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(WIDTH), torch.nn.Linear(WIDTH, CLASSES))
    engine = make_engine(model, stack.plan(Plan(world=world, batch_size=64, lr=0.1)), sgd, 32)
    batch = pieces(samples(64).tensors, world)[rank]
    with engine.micro_batch(last=True):
        engine.backward(loss(engine.model, batch))
    engine.step(want_norm=False)
    return {
        "running": engine.module[0].running_mean.tolist(),
        "truth": (0.1 * batch[0].numpy().mean(0, dtype="float64")).tolist(),
        "steps": int(engine.module[0].num_batches_tracked),
    }


def train(*stacks: str):
    """Runs to their ends: what each reached, what crossed the wire."""
    return {stack: trained(stack) for stack in stacks}


def trained(stack: str):
    data, held = samples(1024), samples(1536).tensors
    held = held[0][1024:], held[1][1024:]

    def evaluate(model):
        return {"accuracy": (model(held[0]).float().argmax(1) == held[1]).float().mean().item()}

    trainer = Trainer(
        stacked(),
        data,
        loss,
        stack=Stack.of(stack),
        samples=TRAINED,
        batch_size=32,
        lr=3e-3,
        evaluate=evaluate,
        eval_every=1024,
        quiet=True,
        target=f"accuracy>={TARGET}",
    )
    result = trainer.fit()
    wire = trainer.engine.wire
    trainer.engine.close()
    return {
        "reached": result.reached,
        "accuracy": result.metrics["accuracy"],
        "samples": result.samples,
        "sent": wire.sent,
        "whole": wire.whole,
        "stage": trainer.plan.zero_stage,
        "ranks_agree": _agree(trainer._policy.k),
    }


def disagree():
    """Ranks that measure different things, and different times, end together all the same."""
    calls = []

    def evaluate(_model):
        calls.append(1)
        return {"accuracy": 0.9 if dist.get_rank() == 0 else 0.1}

    trainer = Trainer(
        stacked(),
        samples(256),
        loss,
        samples=4096,
        batch_size=32,
        quiet=True,
        evaluate=evaluate,
        eval_every=256,
        target="accuracy>=0.8",
    )
    result = trainer.fit()
    timed = Trainer(
        stacked(),
        samples(256),
        loss,
        samples=10**7,
        batch_size=32,
        quiet=True,
        budget=Budget(seconds=1.0 if dist.get_rank() == 0 else 1000.0),
    )
    if dist.get_rank():  # its own clock says otherwise
        timed._budget = Budget(seconds=1.0)
        timed._at.seconds = -1000.0
    ended = timed.fit()
    return {
        "ended": result.ended,
        "samples": result.samples,
        "evaluations": len(calls),
        "timed": ended.ended,
    }


class Stopped(Exception):
    """As if the job had been killed."""


def resume(stack: str, folder: str, kind: str = "stacked"):
    """How far a training that stopped after 8 steps and went on is from one that did not.

    ``ranks``: how far apart the ranks are at the end of the latter.
    """
    weights = []
    for name, stops in (("whole", (None,)), ("parts", (8, None))):
        for stop in stops:
            trainer = Trainer(
                Mixed(dropout=0.1) if kind == "mixed" else stacked(dropout=0.1),
                MixedSamples() if kind == "mixed" else samples(256),
                loss,
                stack=Stack.of(stack),
                samples=16 * 32,
                batch_size=32,
                lr=3e-3,
                snapshots=Path(folder) / name,
                snapshot_every=4,
                quiet=True,
            )
            torch.manual_seed(dist.get_rank())
            before = trainer._step

            def step(run, trainer=trainer, before=before, stop=stop):
                if trainer._at.step == stop:
                    raise Stopped
                return before(run)

            trainer._step = step
            with contextlib.suppress(Stopped):
                assert trainer.fit(resume=True).steps == 16
        weights.append(
            torch.cat([p.detach().float().flatten() for p in trainer.engine.module.parameters()])
        )
        trainer.engine.close()
    of_ranks = [torch.empty_like(weights[0]) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, weights[0])
    return {
        "off": float((weights[0] - weights[1]).abs().max()),
        "ranks": max(float((other - of_ranks[0]).abs().max()) for other in of_ranks),
    }


def _agree(k: int) -> bool:
    ks = [None] * dist.get_world_size()
    dist.all_gather_object(ks, k)
    return len(set(ks)) == 1


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task, *arguments = sys.argv[1:]
    with leaving():
        tasks = {
            "variance": variance,
            "variable": variable,
            "norms": norms,
            "train": train,
            "resume": resume,
            "disagree": disagree,
        }[task](*arguments)
        if dist.get_rank() == 0:
            print("FOUND " + json.dumps(tasks), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # DeepSpeed leaves threads behind
