"""Peak memory of a transformer step in a fresh process: ``peak_memory.py EVERY`` (-1: no replay).

Start it with MALLOC_MMAP_THRESHOLD_=65536, or freed arenas hide the peak.
Prints JSON: bytes above the start, bytes predicted, and the gradients' fingerprint.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import torch
from torch import nn

from optimizers.analysis.memory import kept, predict
from optimizers.plan import Plan
from optimizers.techniques.checkpointing import apply

every = int(sys.argv[1])
depth, width, batch, length = 16, 256, 8, 256
torch.manual_seed(0)
torch.set_num_threads(2)
model = nn.Sequential(
    *(
        nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        for _ in range(depth)
    )
)
data = torch.randn(batch, length, width, requires_grad=True)


def loss(net, x):
    return net(x).square().mean()


def memory(field):
    text = Path("/proc/self/status").read_text()
    return int(re.search(field + r":\s+(\d+)", text)[1]) * 1024


blocks = list(model)
# One sample is enough: all that is kept grows with the batch.
sample = data[:1].detach().clone().requires_grad_()
kept_bytes = kept(model, blocks, loss, sample)
scaled = type(kept_bytes)(
    tuple(batch * b for b in kept_bytes.blocks),
    tuple(batch * b for b in kept_bytes.inputs),
    batch * kept_bytes.rest,
)
predicted = predict(model, blocks, scaled, Plan(), None if every == 0 else max(every, 0))
if every >= 0:
    apply(model, every or None, ("",))
loss(model, data[:1, :8]).backward()  # what torch imports at the first backward is not the step's
model.zero_grad(set_to_none=True)
data.grad = None
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
loss(model, data).backward()
peak = memory("VmHWM") - before
print(
    json.dumps(
        {
            "peak": peak,
            "predicted": predicted.gradients + predicted.activations + predicted.working,
            "parts": [predicted.gradients, predicted.activations, predicted.working],
            "gradients": [float(p.grad.double().norm()) for p in model.parameters()],
        }
    )
)
