"""What reducing gradients costs (s): our three numbers against independent ones, in the same run.

    python -m benchmarks.training.communication [--seconds S] [--widths 256,1024,2048]

Two gloo ranks, DDP, eight linear layers (2, 34 and 134 MB of gradients).

k = 2, 4   truth: the last backward of a step with the reduction, less the same under no_sync, steps
           of both kinds by turns; ours: what the report says of the steps that reduce
k = 1      truth: a separate hook on every bucket, from the last bucket that is ready to the last
           that is reduced; ours: DDP's timers as the report tells them

Bar: within 20 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import ranks
from benchmarks.harness.results import machine, save
from probe.report.build import report_of

WITHIN = 0.20


def worker(width: int, k: int, seconds: float) -> None:
    """One rank: trains under watch, and measures for itself."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import probe

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layers = [nn.Linear(width, width, bias=False) for _ in range(8)]
    ddp = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    tails: list[float] = []
    if k == 1:
        _watch_buckets(ddp, tails)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-6)
    x = torch.randn(32, width)
    times: dict[bool, list[float]] = {True: [], False: []}
    goes_on = torch.ones(1)
    with probe.watch(ddp, optimizer, name=f"width-{width}-k-{k}") as run:
        if dist.get_rank() == 0:
            print(f"RUN {run.path}", flush=True)
        end, number = time.monotonic() + seconds, 0
        while True:
            goes_on.fill_(float(time.monotonic() < end))
            dist.all_reduce(goes_on, dist.ReduceOp.MIN)
            if not goes_on.item():
                break
            reduces = k == 1 or number % 2 == 0
            for j in range(k):
                last = j == k - 1
                with nullcontext() if last and reduces else ddp.no_sync():
                    loss = ddp(x).square().mean()
                    began = time.perf_counter()
                    loss.backward()
                if last and number > 5:
                    times[reduces].append(time.perf_counter() - began)
            optimizer.step()
            optimizer.zero_grad()
            number += 1
    if dist.get_rank() == 0:
        truth = (
            statistics.fmean(tails[5:])
            if k == 1
            else (statistics.fmean(times[True]) - statistics.fmean(times[False]))
        )
        print(f"TRUTH {truth}", flush=True)
    dist.destroy_process_group()


def _watch_buckets(ddp: Any, tails: list[float]) -> None:
    """Add to ``tails`` the seconds from the last bucket ready to the last one reduced."""
    import torch.distributed as dist

    state = {"ready": 0.0, "done": 0.0}

    def hook(_state, bucket):  # DDP checks annotations, and these are text here
        state["ready"] = time.perf_counter()
        tensor = bucket.buffer()
        tensor.div_(dist.get_world_size())
        last = bucket.is_last()

        def done(future: Any) -> Any:
            state["done"] = time.perf_counter()
            if last:
                tails.append(state["done"] - state["ready"])
            return future.value()[0]

        return dist.all_reduce(tensor, async_op=True).get_future().then(done)

    ddp.register_comm_hook(None, hook)


def measure(folder: Path, width: int, k: int, seconds: float) -> dict[str, Any]:
    """Our numbers and the true one of two ranks that train."""
    words = ("--worker", f"{width},{k},{seconds}")
    output = ranks("benchmarks.training.communication", 2, *words, runs=folder)
    printed = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    report = report_of(Path(printed["RUN"])).to_dict()
    row = next(row for row in report["communication"] if row["rank"] == 0)
    ours, truth = row["exposed_s" if k == 1 else "cost_s"], float(printed["TRUTH"])
    if ours is None:
        raise RuntimeError(f"{width}, k = {k}: too few steps, give it more --seconds")
    off, busy = ours / truth - 1, 1e3 * (row["busy_s"] or 0.0)
    print(
        f"{8 * 4 * width**2 / 1e6:6.1f} MB, k = {k}: truth {1e3 * truth:7.2f} ms, ours "
        f"{1e3 * ours:7.2f} ms ({off:+.1%}), busy {busy:.1f} ms",
        flush=True,
    )
    return {
        "width": width,
        "megabytes": 8 * 4 * width**2 / 1e6,
        "k": k,
        "truth_s": truth,
        "ours_s": ours,
        "off": off,
        "busy_s": row["busy_s"],
        "exposed_s": row["exposed_s"],
        "interval_s": row["cost_s_interval"],
        "steps": row["steps"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--widths", default="256,1024,2048")
    parser.add_argument("--k", default="2,4,1")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        width, k, seconds = options.worker.split(",")
        worker(int(width), int(k), float(seconds))
        return 0
    print(json.dumps(machine()))
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            measure(Path(folder), int(width), int(k), options.seconds)
            for k in options.k.split(",")
            for width in options.widths.split(",")
        ]
    held = all(abs(line["off"]) <= WITHIN for line in lines)
    save("training/communication", {"lines": lines, "held": held})
    print(f"bar (within 20 %): {'held' if held else 'MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
