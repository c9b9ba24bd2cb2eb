"""A day of recording in minutes: the real recorder in virtual time, and the memory (MiB) it takes.

    python -m benchmarks.long_runs.virtual_day [--hours 24] [--step-s 1.0] [--faults]

One rank of four phases on one GPU whose counter moves every 100 ms. Bar: from a tenth of the run
on, resident memory grows by 10 MiB at most; no edge is lost; the day's joules are right.
``--faults``: the GPU is lost eight times and the disk full six times, for ten minutes each, and
three recorders are replaced (in this process: their memory counts together). The bar of memory is
then that of the second half against the first, since each fault may need some memory once.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness.processes import rss_mib
from benchmarks.harness.results import save
from probe.report.build import report_of
from tests.fakes.power_traces import Part
from tests.fakes.virtual_run import PHASES, VirtualRun

from .day_faults import Faults

GROWTH_MIB, LOOKS = 10.0, 48


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--hours", type=float, default=24.0)
    options.add_argument("--step-s", type=float, default=1.0, help="mean length of a step")
    options.add_argument("--faults", action="store_true", help="lost GPU, full disk, replacements")
    args = options.parse_args()
    seconds = args.hours * 3600
    longer = args.step_s * 1e3 / sum(part.ms for part in PHASES)
    parts = [Part(p.name, p.ms * longer, p.cv, p.watts) for p in PHASES]
    memory: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = VirtualRun(Path(folder), seconds, parts=parts, portion_s=2.0)

        def watch() -> Iterator[float]:
            while True:
                memory.append(rss_mib(os.getpid()))
                hours = len(memory) * args.hours / LOOKS
                print(f"{hours:6.1f} h {memory[-1]:8.1f} MiB", file=sys.stderr, flush=True)
                yield seconds / LOOKS

        run.clock.run(watch())
        faults = Faults(run, seconds) if args.faults else None
        wall, cpu = time.perf_counter(), time.process_time()
        if faults is None:
            run.record()
        else:
            faults.record()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        report = report_of(run.path).to_dict()
        truth_j = sum(run.truth_j().values())
        size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    begin = max(1, len(memory) // 10)
    warm = memory[begin:]
    growth_mib = max(warm) - warm[0]
    if faults is not None:
        half = len(memory) // 2
        growth_mib = max(memory[half:]) - max(memory[begin:half])
    result = {
        "hours": args.hours,
        "wall_s": wall,
        "cpu_s": cpu,
        "steps": report["run"]["steps"],
        "edges_lost": report["gaps"]["edges_lost"],
        "error_of_total": report["total"]["energy_j"] / truth_j - 1,
        "mib_on_disk": size / 2**20,
        "growth_mib": growth_mib,
        **({} if faults is None else faults.counts),
        "rss_mib": [round(m, 1) for m in memory],
    }
    for key, value in result.items():
        if not isinstance(value, list):
            print(f"{key:24}{value:>14.5g}")
    ok = (
        result["growth_mib"] <= GROWTH_MIB
        and result["edges_lost"] == 0
        and abs(result["error_of_total"]) < 1e-3
    )
    per_hour = [memory[int(place)] for place in np.arange(0, len(memory), LOOKS / args.hours)]
    print("MiB by hour:", " ".join(f"{mib:.0f}" for mib in per_hour))
    print("bars held" if ok else "bars MISSED")
    if args.hours >= 24:
        save(f"long_runs/virtual_day{'_faults' if args.faults else ''}", result)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
