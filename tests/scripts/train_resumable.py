"""A training that can be killed: ``train_resumable.py SNAPSHOTS LOG [background]``; goes on.

LOG gets one line a micro-batch: step, k, loss scale, fingerprint of the data, loss.
"""

from __future__ import annotations

import sys

import torch

from optimizers import Stack, Trainer
from optimizers.techniques.accumulation import GradientAccumulation
from optimizers.techniques.precision import MixedPrecision
from optimizers.techniques.schedule import WarmupCosine
from tests.unit.optimizers.models import loss, samples, stacked

torch.set_num_threads(1)
torch.manual_seed(7)
stack = Stack(
    [GradientAccumulation(k=2, adaptive=True, k_max=6), WarmupCosine(), MixedPrecision("fp16")]
)
log = open(sys.argv[2], "a", buffering=1)  # noqa: SIM115 (until the process ends)


def noted(model, batch):
    value = loss(model, batch)
    engine, at = trainer.engine, trainer._at
    print(
        at.step,
        trainer._policy.k,
        engine.loss_scale,
        float(batch[0].double().sum()).hex(),
        value.item().hex(),
        file=log,
    )
    return value


trainer = Trainer(
    stacked(dropout=0.2),
    samples(200),
    noted,
    stack=stack,
    samples=24 * 60,
    batch_size=24,
    lr=3e-3,
    snapshots=sys.argv[1],
    snapshot_every=4,
    snapshots_in_background="background" in sys.argv,
    quiet=True,
)
trainer.fit(resume=True)
print("done", file=log)
