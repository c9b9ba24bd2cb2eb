"""A training on any number of ranks: ``train_elastic.py SNAPSHOTS LOG STEPS [background]``.

It is ended after so many steps in all; started again, it goes on where it was. LOG gets a line a
step of rank 0: the step, and the mean loss of all ranks.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

from optimizers import Stack, Trainer
from optimizers.techniques.accumulation import GradientAccumulation
from optimizers.techniques.schedule import WarmupCosine
from tests.unit.optimizers.models import loss, samples, stacked

torch.set_num_threads(1)
torch.manual_seed(7)
last = int(sys.argv[3])


def noted(model, batch):
    if trainer._at.step == last:
        if trainer.rank == 0:
            log.close()
        os._exit(9)  # as if the job was ended
    value = loss(model, batch)
    losses.append(value.detach())
    if len(losses) == 2:  # the micro-batches of a step
        mean = torch.stack(losses).mean()
        losses.clear()
        if dist.is_initialized():
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
        if trainer.rank == 0:
            print(trainer._at.step, mean.item(), file=log)
    return value


losses: list[torch.Tensor] = []
trainer = Trainer(
    stacked(),
    samples(200),
    noted,
    stack=Stack([GradientAccumulation(k=2), WarmupCosine()]),
    samples=24 * 40,
    batch_size=24,
    lr=3e-3,
    snapshots=sys.argv[1],
    snapshot_every=5,
    snapshots_in_background="background" in sys.argv,
    classify=False,
    quiet=True,
)
log = open(sys.argv[2], "a", buffering=1) if trainer.rank == 0 else None  # noqa: SIM115
trainer.fit(resume=True)
