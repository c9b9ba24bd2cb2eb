"""What the recorder takes: a share of a core, bytes per row, MiB of memory over time.

    python -m benchmarks.cost.recorder [--seconds 240]    8 rig GPUs, 100 ms counters, 1,000 edges/s
    python -m benchmarks.cost.recorder --period 0.02      the same with 20 ms counters
    python -m benchmarks.cost.recorder --all-sensors      and AMD, Cray, Intel, Jetson, RAPL, …
    python -m benchmarks.cost.recorder --steps 1000000    an empty loop as fast as it goes

Energy and activity of all eight are attributed meanwhile (for the first time after 70 s). Bars:
≤ 2 % of one core, ≤ 15 % with 20 ms counters (or one update in n, and it says so); resident memory
of recorder and trainer grows ≤ 5 MB over 10⁶ steps, of whose edges ≥ 95 % are kept and the rest is
counted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.harness.every_meter import every_meter
from benchmarks.harness.processes import cpu_seconds, rss_mib, under_rig
from benchmarks.harness.results import save
from tests.fakes.processes import await_recorder

GPUS, EDGES_PER_S = 8, 1000
WARM_S = 6.0  # imports, the search for the counters' lattice, CodeCarbon's detection


def paced(runs: str, seconds: float) -> dict[str, Any]:
    """A steady 1,000 edges/s beside eight GPUs."""
    import pyarrow.parquet as pq

    import probe

    with probe.watch(name="paced", dir=runs) as run:
        pid = await_recorder(run.path)
        begin = time.monotonic()
        marks, warm = 0, None
        memory: list[float] = []
        spent: list[float] = []
        while (now := time.monotonic() - begin) < WARM_S + seconds:
            if warm is None and now >= WARM_S:
                warm = (cpu_seconds(pid), now)
            while marks < now * EDGES_PER_S:
                with run.phase("work"):
                    marks += 2
            if warm is not None and len(memory) < now - WARM_S:
                memory.append(rss_mib(pid))
                spent.append(cpu_seconds(pid))
            time.sleep(0.002)
        assert warm is not None
        share = (cpu_seconds(pid) - warm[0]) / (now - warm[1])
    data = run.report().to_dict()
    stored = [path for path in run.path.rglob("*.parquet") if "rollup" not in path.parts]
    rows = sum(pq.read_metadata(path).num_rows for path in stored)
    size = sum(path.stat().st_size for path in stored)
    by_minute = [(b - a) / 60 for a, b in itertools.pairwise(spent[::60])]
    gpu = [
        s["energy_j"] for s in data["sources"] if s["in_total"] and s["device"].startswith("gpu")
    ]
    return {
        "seconds": seconds,
        "cpu_share": share,
        "cpu_share_median_second": statistics.median(
            after - before for before, after in itertools.pairwise(spent)
        ),
        "cpu_share_last_minute": (spent[-1] - spent[-61]) / 60 if len(spent) > 60 else None,
        "cpu_share_by_minute": by_minute,
        "warnings": [line for line in data["warnings"] if "attribution" in line],
        "rows": rows,
        "bytes_per_row": size / rows,
        "recorder_rss_mib": [round(m, 1) for m in memory],
        "edges": marks,
        "gpus_measured": len(gpu),
        "sources": len(data["sources"]),
        "meters": len({s["source"].split(":")[0] for s in data["sources"]}),
        "mean_power_w": sum(gpu) / GPUS / data["run"]["duration_s"],
    }


def empty_loop(runs: str, steps: int) -> dict[str, Any]:
    """Two phases per step and nothing else: more edges per second than any training has."""
    import probe

    with probe.watch(name="empty", dir=runs) as run:
        pid = await_recorder(run.path)
        time.sleep(2.0)
        rss: list[tuple[float, float]] = []
        begin = time.perf_counter()
        for step in range(steps):
            with run.phase("a"):
                pass
            with run.phase("b"):
                pass
            if step % max(1, steps // 20) == 0:
                rss.append((rss_mib(os.getpid()), rss_mib(pid)))
        took = time.perf_counter() - begin
        rss.append((rss_mib(os.getpid()), rss_mib(pid)))
    data = run.report().to_dict()
    offered = 4 * steps
    lost = data["gaps"]["edges_lost"]
    kept = _edges(run.path)
    warm = rss[2:]  # after a tenth of the steps: buffers have their size
    return {
        "steps": steps,
        "us_per_step": took / steps * 1e6,
        "edges_offered": offered,
        "edges_kept": kept,
        "edges_counted_lost": lost,
        "kept_share": kept / offered,
        "unaccounted": offered - kept - lost,
        "trainer_growth_mib": max(r[0] for r in warm) - warm[0][0],
        "recorder_growth_mib": max(r[1] for r in warm) - warm[0][1],
        "rss_mib": [[round(a, 1), round(b, 1)] for a, b in rss],
    }


def _edges(run: Path) -> int:
    """How many of the phases' edges are stored."""
    from probe.ring.layout import Record
    from probe.store.reader import RunReader

    rings = RunReader(run).rings(0)
    marks = sum(int((rows["kind"] == Record.MARK).sum()) for _, rows in rings)
    return marks - 1  # the first mark is the engine's own


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seconds", type=float, default=240.0)
    options.add_argument("--period", type=float, default=0.1, help="of the counters, in s")
    options.add_argument("--all-sensors", action="store_true")
    options.add_argument("--steps", type=int, default=0)
    args = options.parse_args()
    under_rig(GPUS, period_s=args.period)
    with tempfile.TemporaryDirectory() as runs:
        if args.steps:
            result = empty_loop(runs, args.steps)
            ok = (
                result["kept_share"] >= 0.95
                and result["unaccounted"] == 0
                and max(result["trainer_growth_mib"], result["recorder_growth_mib"]) <= 5.0
            )
        else:
            with every_meter() if args.all_sensors else nullcontext():
                result = paced(runs, args.seconds)
            bar = 0.15 if args.period < 0.05 else 0.02
            ok = result["cpu_share"] <= bar and result["gpus_measured"] >= GPUS
    for key, value in result.items():
        if key == "cpu_share_by_minute":
            print(f"{key:24}", *(f"{share:.4f}" for share in value))
        elif not isinstance(value, list):
            figure = "unknown" if value is None else value  # too short to say
            print(
                f"{key:24}{figure:>14.4f}" if isinstance(value, float) else f"{key:24}{figure:>14}"
            )
    print("bars held" if ok else "bars MISSED")
    name = "cost/recorder-memory" if args.steps else "cost/recorder"
    if args.all_sensors:
        name = "cost/recorder-all-sensors"
    save(f"{name}-20ms" if args.period < 0.05 else name, result)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
