"""Random counters and read schedules: does everything come through, and do intervals hold?

    python -m benchmarks.energy.read_schedules [--short 2000] [--long 200]

Counters of 1 to 500 ms whose updates are missed, doubled, late or go backwards, that are reset, and
whose reader stalls for up to a minute, go through all that makes a report (tests/fakes/
read_schedules.py). Short ones of 20 s must not raise, and their rows must add up. Of long ones of
60 s resolved intervals must hold the truth, and few may be refused where the counter is slow enough
to be read (20 ms or more) and most of its updates are read.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
import warnings
from collections import Counter
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.harness.results import save
from probe.model import Status
from tests.fakes.read_schedules import closure, outcome, random_schedule

HELD, REFUSED, CLOSURE = 0.93, 0.40, 1e-9
READABLE_S, FEW_MISSED = 0.02, 0.3
QUICK_MS = 150  # slower counters give a minute less than 400 intervals


def attributed(seed: int, seconds: float) -> dict[str, Any]:
    """What became of one schedule."""
    warnings.simplefilter("error", RuntimeWarning)
    schedule = random_schedule(seed, seconds)
    try:
        result = outcome(schedule)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return {"raised": f"{type(error).__name__} in {frame.name} (seed {seed})"}
    if result.energy_j is None:
        return {}
    names, joules = schedule.trace.names, schedule.trace.truth(0.0, schedule.end_s)
    truth = dict(zip(names, joules, strict=True))
    phases = [row for row in result.rows.phases if row.phase in truth]
    resolved = [row for row in phases if row.status == Status.RESOLVED]
    within = [
        bool(row.energy_j_interval[0] <= truth[row.phase] <= row.energy_j_interval[1])
        for row in resolved
        if row.energy_j_interval is not None
    ]
    return {
        "closure": closure(result),
        "resolved": len(resolved),
        "held": int(sum(within)),
        "missed": [row.phase for row, held in zip(resolved, within, strict=True) if not held],
        "readable": schedule.period_s >= READABLE_S and schedule.missed <= FEW_MISSED,
        "refused": all(row.status == Status.NOT_IDENTIFIABLE for row in phases),
        "seed": seed,
        "period_ms": schedule.period_s * 1e3,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--short", type=int, default=2000)
    options.add_argument("--long", type=int, default=200)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    args = options.parse_args()
    seeds = range(args.first, args.first + args.short)
    with multiprocessing.Pool() as pool:
        short = pool.map(partial(attributed, seconds=20.0), seeds, 8)
        seeds = range(args.first, args.first + args.long)
        long = pool.map(partial(attributed, seconds=60.0), seeds, 4)
    raised = Counter(result["raised"] for result in short + long if "raised" in result)
    worst = max((result.get("closure", 0.0) for result in short + long), default=0.0)
    held, resolved = (sum(result.get(name, 0) for result in long) for name in ("held", "resolved"))
    readable = [result for result in long if result.get("readable")]
    refused = sum(result["refused"] for result in readable)
    print(f"{len(short)} schedules of 20 s, {len(long)} of 60 s: {raised.total()} raised")
    for line, count in raised.most_common(10):
        print(f"  {count} × {line}")
    print(f"rows add up to the device within {worst:.1e} of its energy; bar {CLOSURE:g}")
    print(f"resolved intervals that hold: {held} of {resolved}; bar {HELD:.0%}")
    for result in long:
        if result.get("missed"):
            period = f"{result['period_ms']:.1f} ms"
            print(f"  seed {result['seed']}, {period}: not {', '.join(result['missed'])}")
    print(f"refused where readable: {refused} of {len(readable)}; bar {REFUSED:.0%}")
    quick = [result for result in readable if result["period_ms"] <= QUICK_MS]
    print(f"  of periods up to {QUICK_MS} ms: {sum(r['refused'] for r in quick)} of {len(quick)}")
    save(
        "read_schedules",
        {
            "short": len(short),
            "long": len(long),
            "raised": raised.total(),
            "closure": worst,
            "held": held,
            "resolved": resolved,
            "refused": refused,
            "readable": len(readable),
        },
    )
    met = not raised and worst <= CLOSURE and held >= HELD * resolved
    sys.exit(not (met and refused <= REFUSED * len(readable)))


if __name__ == "__main__":
    main()
