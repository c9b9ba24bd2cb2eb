"""The price of a record when it is met cold: after milliseconds of other work.

    python benchmarks/hook_cpu_cold.py [--blocks 150] [--plain]

Before each call of torch that we listen to, three matrix products sweep our code and data out of
the processor's caches, as a real step does; hooks on and off by turns; medians. It is what a step
of tens of milliseconds pays, where benchmarks/phases.py tells what one of 2 ms pays. With --plain,
what it pays where nothing was compiled.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from common import ROOT, save
from torch.utils.data import DataLoader

sys.path.insert(0, str(ROOT))
IN_A_ROW = 4
SETTLED_S = 6.0


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--blocks", type=int, default=150)
    options.add_argument("--plain", action="store_true")
    args = options.parse_args()
    if args.plain:
        import tests.uncompiled_plugin  # noqa: F401 (before ours)
    import probe
    from probe.instrument.state_machine import COMPILED

    torch.set_num_threads(1)
    large = torch.randn(512, 512)
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    x = torch.randn(2, 4)
    batches = endless(DataLoader(torch.randn(4096, 4), batch_size=1))  # type: ignore[arg-type]
    held: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {
        "data": lambda: next(batches),
        "forward": lambda: held.update(loss=net(x).sum()),
        "backward": lambda: held["loss"].backward(),
        "optimizer": optimizer.step,
    }
    times: dict[tuple[str, bool], list[float]] = {
        (name, on): [] for name in calls for on in (False, True)
    }
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as runs,
        probe.watch(net, optimizer, dir=runs) as run,
    ):
        engine = run._engine
        engine.uninstall()
        time.sleep(SETTLED_S)  # the recorder's imports
        records = steps = 0
        for _ in range(args.blocks):
            for on in (False, True):
                if on:
                    engine._model, engine._optimizers = net, [optimizer]
                    engine.install()
                before = engine.ring.offered()
                for turn in range(IN_A_ROW):
                    for name, call in calls.items():
                        for _ in range(3):
                            large @ large
                        begin = time.perf_counter_ns()
                        call()
                        if turn:  # the first one after hooks came or went is another case
                            times[name, on].append((time.perf_counter_ns() - begin) / 1e3)
                    optimizer.zero_grad()
                if on:
                    records, steps = records + engine.ring.offered() - before, steps + IN_A_ROW
                    engine.uninstall()
    total = 0.0
    rows = {}
    for name in calls:
        off, with_us = (statistics.median(times[name, on]) for on in (False, True))
        total += with_us - off
        rows[name] = {"without_us": round(off, 1), "added_us": round(with_us - off, 1)}
        print(f"  {name:10}{off:>8.1f} µs  + {with_us - off:>6.1f} µs")
    per_record = total / (records / steps)
    print(
        f"a step {total:.0f} µs, a record {per_record:.1f} µs, cold, "
        f"{'compiled' if COMPILED else 'plain'}"
    )
    save(
        "hook_cpu_cold" if COMPILED else "hook_cpu_cold-plain",
        {
            "blocks": args.blocks,
            "calls": rows,
            "step_us": round(total, 1),
            "record_us": round(per_record, 1),
        },
    )


def endless(loader: DataLoader[Any]) -> Any:
    while True:
        yield from loader


if __name__ == "__main__":
    main()
