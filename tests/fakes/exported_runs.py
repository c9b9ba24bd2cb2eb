"""Runs that are exported and reported: two cards of known power, a plain and a hostile name."""

from __future__ import annotations

import functools
from pathlib import Path

from exporters import StoredRun
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.recordings import Recording

HOSTILE = 'a/../../b\n"c" <script>é' + "x" * 10_000

# Each waits for the modelled CPU and RAM, which every format shows beside what is measured.
TRAINING = f"""
{processes.AWAIT_RECORDER}
import sys
sys.path.insert(0, {str(processes.ROOT)!r})
import probe
with probe.watch(name=sys.argv[1], country="FRA", data="rows") as run:
    print(run.path, flush=True)
    await_source(run, "codecarbon:ram")
    for step in range(150):
        with run.phase("forward"):
            time.sleep(0.02)
        with run.phase(sys.argv[1][:60]):
            time.sleep(0.012)
        run.log(loss=1.0 / (step + 1), samples=8)
"""


STEPS = f"""
{processes.AWAIT_RECORDER}
import sys
sys.path.insert(0, {str(processes.ROOT)!r})
import probe, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
with probe.watch(model, optimizer, name=sys.argv[1], country="FRA") as run:
    await_source(run, "codecarbon:ram")
    for step in range(120):
        loss = model(torch.ones(8, 8)).sum()
        time.sleep(0.02)
        loss.backward()
        time.sleep(0.02)
        optimizer.step()
        optimizer.zero_grad()
        run.log(samples=8)
"""


def stored_run(folder: Path) -> StoredRun:
    """The one run of a recording."""
    return StoredRun(processes.only_run(folder))


def _record(script: str, name: str, folder: Path) -> None:
    rig = NvmlRig(folder, gpus=2, power_w=200.0, period_s=0.1)
    done = processes.run(script, folder, name, extra=rig.env())
    assert done.returncode == 0, done.stderr


# By phases alone, and by the steps of a model.
PLAIN = Recording("exported-plain", functools.partial(_record, TRAINING, "plain name"), 5.0)
HOSTILE_PLAIN = Recording("exported-hostile", functools.partial(_record, TRAINING, HOSTILE), 5.0)
STEPPED = Recording("stepped-plain", functools.partial(_record, STEPS, "plain name"), 6.0)
HOSTILE_STEPPED = Recording("stepped-hostile", functools.partial(_record, STEPS, HOSTILE), 6.0)
