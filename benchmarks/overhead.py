"""What watching the phases of a step costs the training process, beside its peers.

    python benchmarks/overhead.py [--blocks 30]

The same loop five ways, in interleaved blocks of one process: bare, bare again (A/A), under
`probe.watch()`, with CodeCarbon tasks per phase, with Zeus windows per phase (both on an NVML
library that answers at once, so their real cost is higher), under torch.profiler. CPU time of the
process per step, all threads. Bars: phasewatt ≤ 35 µs on the 2 ms step, ≤ 0.5 % from 10 ms on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import ROOT, await_exit, mean_and_bound, recorder_pid, save

sys.path.insert(0, str(ROOT))
PHASES = ("data", "forward", "backward", "optimizer")
Marks = Callable[[str], contextlib.AbstractContextManager[Any]]
SIZES = {"2 ms": (24, 64, 96), "10 ms": (24, 256, 160), "40 ms": (24, 640, 224)}


def under_rig() -> None:
    """Start again with the tests' NVML library in front."""
    if "NVML_RIG" in os.environ:
        return
    from tests.rigs.nvml import NvmlRig

    folder = tempfile.mkdtemp()
    rig = NvmlRig(Path(folder), gpus=1, power_w=300.0, period_s=0.1)
    os.environ.update(rig.env())
    os.environ["OMP_NUM_THREADS"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])


def make_step(depth: int, batch: int, width: int) -> tuple[Any, Any, Callable[[Marks], None]]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(
        nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
        for _ in range(depth)
    ))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(batch, width)

    def step(mark: Marks) -> None:
        with mark("data"):
            inputs = x.clone()
        with mark("forward"):
            loss = model(inputs).square().mean()
        with mark("backward"):
            loss.backward()
        with mark("optimizer"):
            optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def unmarked(_name: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


@contextlib.contextmanager
def bare(_model: Any, _optimizer: Any) -> Iterator[Marks]:
    yield unmarked


@contextlib.contextmanager
def phasewatt(model: Any, optimizer: Any) -> Iterator[Marks]:
    import probe

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as runs:
        with probe.watch(model, optimizer, dir=runs) as run:
            time.sleep(1.5)  # the recorder's start is measured in startup.py
            # Forward, backward and optimizer are automatic; without a loader, data is marked.
            yield lambda name: run.phase("data") if name == "data" else contextlib.nullcontext()
        await_exit(recorder_pid(run.path))  # or it would seal beside the next block


class CodeCarbon:
    """One tracker for all blocks: its start takes seconds."""

    def __init__(self) -> None:
        from codecarbon import OfflineEmissionsTracker

        self.tracker = OfflineEmissionsTracker(
            country_iso_code="USA", save_to_file=False, log_level="critical"
        )
        self.number = 0

    @contextlib.contextmanager
    def __call__(self, _model: Any, _optimizer: Any) -> Iterator[Marks]:
        yield self.mark

    @contextlib.contextmanager
    def mark(self, name: str) -> Iterator[None]:
        self.number += 1
        self.tracker.start_task(f"{name}-{self.number}")
        try:
            yield
        finally:
            self.tracker.stop_task()


class Zeus:
    """Windows of the fastest kind: no device sync."""

    def __init__(self) -> None:
        from zeus.monitor import ZeusMonitor

        self.monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[])

    @contextlib.contextmanager
    def __call__(self, _model: Any, _optimizer: Any) -> Iterator[Marks]:
        yield self.mark

    @contextlib.contextmanager
    def mark(self, name: str) -> Iterator[None]:
        self.monitor.begin_window(name, sync_execution=False)
        try:
            yield
        finally:
            self.monitor.end_window(name, sync_execution=False)


@contextlib.contextmanager
def profiler(_model: Any, _optimizer: Any) -> Iterator[Marks]:
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield torch.profiler.record_function


def per_step_us(step: Callable[[Marks], None], mark: Marks, steps: int) -> float:
    for _ in range(max(3, steps // 10)):  # caches, lazily made buffers, the clock of the core
        step(mark)
    begin = time.process_time_ns()
    for _ in range(steps):
        step(mark)
    return (time.process_time_ns() - begin) / steps / 1e3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--blocks", type=int, default=30)
    options.add_argument("--sizes", default=",".join(SIZES))
    args = options.parse_args()
    under_rig()
    ways: dict[str, Any] = {"bare": bare, "A/A": bare, "phasewatt": phasewatt}
    for name, kind in (("CodeCarbon", CodeCarbon), ("Zeus", Zeus)):
        try:
            ways[name] = kind()
        except Exception as error:
            print(f"{name} is left out: {type(error).__name__}: {error}")
    ways["torch.profiler"] = profiler
    result: dict[str, Any] = {"blocks": args.blocks, "sizes": {}}
    ok = True
    for size in args.sizes.split(","):
        model, optimizer, step = make_step(*SIZES[size])
        per_step_us(step, unmarked, 20)
        steps = max(8, int(400_000 / per_step_us(step, unmarked, 20)))
        costs: dict[str, list[float]] = {name: [] for name in ways}
        base: list[float] = []
        for _ in range(args.blocks):
            # The bare block runs right beside each other one: the machine drifts.
            for name, way in ways.items():
                slow = name in ("CodeCarbon", "torch.profiler")
                count = min(steps, 40) if slow else steps
                first = per_step_us(step, unmarked, steps // 2)
                with way(model, optimizer) as mark:
                    measured = per_step_us(step, mark, count)
                beside = (first + per_step_us(step, unmarked, steps // 2)) / 2
                base.append(beside)
                costs[name].append(measured - beside)
        step_us = statistics.median(base)
        print(f"\n{size} step: {step_us / 1e3:.2f} ms bare, {args.blocks} blocks of {steps} steps")
        print(f"  {'':16}{'mean':>10}{'upper 95 %':>12}{'median':>10}   of the step")
        rows = {}
        for name in list(ways)[1:]:
            mean, upper = mean_and_bound(costs[name])
            median = statistics.median(costs[name])
            rows[name] = {"mean_us": round(mean, 1), "upper_us": round(upper, 1),
                          "median_us": round(median, 1), "share": mean / step_us}
            print(f"  {name:16}{mean:>7.1f} µs{upper:>9.1f} µs{median:>7.1f} µs"
                  f"   {100 * mean / step_us:.2f} %")
        result["sizes"][size] = {"step_us": round(step_us, 1), "ways": rows}
        ours = rows["phasewatt"]
        bar_us = 35.0 if size == "2 ms" else 0.005 * step_us
        held = ours["upper_us"] <= bar_us
        ok &= held
        print(f"  bar {bar_us:.0f} µs: {'held' if held else 'MISSED'} "
              f"(mean {ours['mean_us']}, upper {ours['upper_us']})")
    save("overhead", result)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
