"""Time (µs) that a record costs when it is met cold: after milliseconds of other work.

    python -m benchmarks.cost.hook_cpu_cold [--blocks 150] [--plain]

Before each call of torch that we listen to, three matrix products sweep our code and data out of
the processor's caches, as a real step does; hooks on and off by turns; medians. It is what a step
of tens of milliseconds pays, where hook_cpu_warm.py tells what one of 2 ms pays. With --plain,
what it pays where nothing was compiled.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

if "--plain" in sys.argv:  # before anything of ours is imported
    import tests.uncompiled_plugin  # noqa: F401

import torch
from torch.utils.data import DataLoader

from benchmarks.harness.hooks import hooks, watched
from benchmarks.harness.results import save
from benchmarks.harness.turns import by_turns

SETTLING = 8  # steps after hooks came: new root modules are looked for in each of them
IN_A_ROW = 3  # timed


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--blocks", type=int, default=150)
    options.add_argument("--plain", action="store_true")
    args = options.parse_args()
    from probe.instrument.state_machine import COMPILED

    torch.set_num_threads(1)
    large = torch.randn(512, 512)
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    x = torch.randn(2, 4)
    batches = endless(DataLoader(torch.randn(4096, 4), batch_size=1))  # type: ignore[arg-type]
    kept: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {
        "data": lambda: next(batches),
        "forward": lambda: kept.update(loss=net(x).sum()),
        "backward": lambda: kept["loss"].backward(),
        "optimizer": optimizer.step,
    }

    def turn() -> dict[str, list[float]]:
        """µs of each call."""
        times: dict[str, list[float]] = {name: [] for name in calls}
        for step in range(SETTLING + IN_A_ROW):
            for name, call in calls.items():
                if step < SETTLING:
                    call()
                    continue
                for _ in range(3):
                    large @ large
                begin = time.perf_counter_ns()
                call()
                times[name].append((time.perf_counter_ns() - begin) / 1e3)
            optimizer.zero_grad()
        return times

    with watched(net, optimizer) as run:

        def turn_with_hooks() -> dict[str, list[float]]:
            with hooks(run, net, optimizer):
                return turn()

        before = run._engine.ring.offered()
        turns = by_turns({"off": turn, "on": turn_with_hooks}, args.blocks)
        records = run._engine.ring.offered() - before
    total = 0.0
    rows = {}
    for name in calls:
        off, on = (
            statistics.median(value for times in turns[hooked] for value in times[name])
            for hooked in ("off", "on")
        )
        total += on - off
        rows[name] = {"without_us": round(off, 1), "added_us": round(on - off, 1)}
        print(f"  {name:10}{off:>8.1f} µs  + {on - off:>6.1f} µs")
    per_record = total / (records / (args.blocks * (SETTLING + IN_A_ROW)))
    print(
        f"a step {total:.0f} µs, a record {per_record:.1f} µs, cold, "
        f"{'compiled' if COMPILED else 'plain'}"
    )
    save(
        "cost/hook_cpu_cold" if COMPILED else "cost/hook_cpu_cold-plain",
        {
            "blocks": args.blocks,
            "calls": rows,
            "step_us": round(total, 1),
            "record_us": round(per_record, 1),
        },
    )


def endless(loader: DataLoader[Any]) -> Iterator[Any]:
    """Its batches, over and over."""
    while True:
        yield from loader


if __name__ == "__main__":
    main()
