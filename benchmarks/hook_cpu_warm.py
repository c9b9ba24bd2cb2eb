"""Thread CPU time inside our hooks, per step and rank, at 1, 2 and 4 ranks.

    python benchmarks/hook_cpu_warm.py [--ranks 1,2,4] [--seconds 40]

A small model under `probe.watch()` (73 modules, 96 parameters, some 2 ms per step on one thread;
several ranks by DDP over gloo). The clock of the thread runs from the moment torch calls a hook or
wrapper of ours until that calls torch's own function or returns. The clock is compiled
(stopwatch.pyx), or its own frames would be a good part of what is told; what it takes is measured
at the same places in every other step, where nothing is called instead, and taken off.
What hooks cost torch besides (it looks for them, caches hold them) is in phases.py, where noise
hides more.

Bar: 35 µs per step and rank, its 95 % interval included.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import ROOT, machine, save
from torch import nn

sys.path.insert(0, str(ROOT))

from phases import Block

import probe
from probe.instrument.patches import patching, wrappers

BAR_US = 35.0
BLOCK = 100  # steps
WARM = 3  # blocks


def instrument(clock: Any) -> None:
    """Every way from torch into our code but calls of the model; before the first watch."""
    optim = sys.modules["torch.optim.optimizer"]  # torch.optim hides it
    patch = patching.Session.patch

    def patched(self: Any, owner: Any, name: str, wrap: Any) -> None:
        patch(
            self,
            owner,
            name,
            lambda original, session: clock.within(wrap(clock.outside(original), session)),
        )

    patching.Session.patch = patched  # type: ignore[method-assign]
    for name in ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"):
        real = getattr(optim, name)
        setattr(optim, name, lambda hook, real=real: real(clock.within(hook)))
    # Called inside backward, which is not ours.
    asking, within = wrappers.asking, functools.cache(clock.within)
    wrappers.asking = lambda hooks, ask: within(
        asking(hooks, lambda computed: ask(within(computed)))
    )


def worker(seconds: float, runs: str) -> None:
    """One rank: prints its mean, its 95 % half and stays per step."""
    from stopwatch import Stopwatch  # type: ignore[import-not-found]  # see measure()

    clock = Stopwatch()
    instrument(clock)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model: nn.Module = nn.Sequential(*[Block() for _ in range(24)])
    if torch.distributed.get_world_size() > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    data = torch.utils.data.TensorDataset(torch.randn(BLOCK * 8, 32))
    blocks: list[float] = []
    goes_on = torch.ones(1)
    kind: Any = type(model)
    kind.__call__ = clock.outside(kind.__call__)
    with probe.watch(model, optimizer, name="inside", dir=runs):
        kind.__call__ = clock.within(kind.__call__)
        end = time.monotonic() + seconds
        while goes_on.item():
            clock.ns = clock.clock_ns = clock.stays = 0
            for (x,) in torch.utils.data.DataLoader(data, batch_size=8):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                clock.empty = not clock.empty
            blocks.append((clock.ns - clock.clock_ns) / (BLOCK / 2) / 1e3)
            goes_on.fill_(float(time.monotonic() < end))
            torch.distributed.all_reduce(goes_on, torch.distributed.ReduceOp.MIN)
    blocks = blocks[WARM:]
    half = 1.96 * statistics.stdev(blocks) / len(blocks) ** 0.5
    print(
        json.dumps(
            {
                "rank": torch.distributed.get_rank(),
                "us": statistics.fmean(blocks),
                "half_us": half,
                "median_us": statistics.median(blocks),
                "stays": clock.stays / (BLOCK / 2),
                "clock_us": clock.clock_ns / (BLOCK / 2) / 1e3,
                "steps": len(blocks) * BLOCK // 2,
            }
        ),
        flush=True,
    )
    torch.distributed.destroy_process_group()


def measure(ranks: int, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as runs, tempfile.TemporaryDirectory() as built:
        source = shutil.copy(Path(__file__).with_name("stopwatch.pyx"), built)
        subprocess.run(
            [sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-q", source],
            check=True,
            capture_output=True,
        )
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                str(ranks),
                "--standalone",
                __file__,
                "--seconds",
                str(seconds),
                "--worker",
                runs,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{built}"},
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    # Ranks may write at the same time.
    told = [json.loads(one) for one in re.findall(r"\{[^{}]*\}", done.stdout)]
    for one in sorted(told, key=lambda one: one["rank"]):
        print(
            f"{ranks} ranks, rank {one['rank']}: {one['us']:5.1f} ± {one['half_us']:.1f} µs CPU "
            f"per step in {one['stays']:.0f} stays, median block {one['median_us']:.1f}, "
            f"{one['steps']} steps",
            flush=True,
        )
    return [one | {"ranks": ranks} for one in told]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--worker", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.seconds, options.worker)
        return 0
    print(json.dumps(machine()))
    found = [
        one for ranks in options.ranks.split(",") for one in measure(int(ranks), options.seconds)
    ]
    held = all(one["us"] + one["half_us"] <= BAR_US for one in found)
    save("hook_cpu_warm", {"lines": found, "held": held})
    print(f"bar {BAR_US:.0f} µs: {'held' if held else 'MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
