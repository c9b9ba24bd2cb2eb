"""A day of recording in minutes: the real recorder in virtual time, and the memory (MiB) it takes.

    python -m benchmarks.long_runs.virtual_day [--hours 24] [--step-s 1.0]

One rank of four phases on one GPU whose counter moves every 100 ms. Bar: from a tenth of the run
on, resident memory grows by 10 MiB at most; no edge is lost; the day's joules are right.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.processes import rss_mib
from benchmarks.harness.results import save
from probe.report.build import Report
from tests.fakes.power_traces import Part
from tests.fakes.virtual_run import PHASES, VirtualRun

GROWTH_MIB, LOOKS = 10.0, 48


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--hours", type=float, default=24.0)
    options.add_argument("--step-s", type=float, default=1.0, help="mean length of a step")
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
        wall, cpu = time.perf_counter(), time.process_time()
        run.record()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        report = Report.of(run.path).data
        truth_j = sum(run.truth_j().values())
        size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    warm = memory[max(1, len(memory) // 10) :]
    result = {
        "hours": args.hours,
        "wall_s": wall,
        "cpu_s": cpu,
        "steps": report["run"]["steps"],
        "edges_lost": report["gaps"]["edges_lost"],
        "error_of_total": report["total"]["energy_j"] / truth_j - 1,
        "mib_on_disk": size / 2**20,
        "growth_mib": max(warm) - warm[0],
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
    print("bars held" if ok else "bars MISSED")
    if args.hours >= 24:
        save("long_runs/virtual_day", result)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
