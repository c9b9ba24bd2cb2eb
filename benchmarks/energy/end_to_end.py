"""Do the intervals of a report hold what a real training process spent, whatever the sensor does?

    python -m benchmarks.energy.end_to_end [--runs 10] [--seconds 45] [--worlds 'delay 22 ms,…']

Each run is a process that trains a small model under `probe.watch()`, on the tests' NVML library.
Its modules and hooks sleep, and set the power that the card draws meanwhile; the energy counter
shows that power as each world says. Steps take about 60 ms and vary. `probe report` is held against
the tape of the power between the time stamps that the training itself took. *Misattributed* is
½ Σ|error| / total of the four phases, as far as the report names their energy.

Bars: 120 resolved intervals in all, and 88 % for the lower bound (one-sided, 95 %, Clopper–Pearson)
of the share of them that holds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from benchmarks.harness.results import save
from tests.fakes.nvml import NvmlRig
from tests.fakes.paced_run import report_of, stamped_energy, train

PHASES = ("data", "forward", "backward", "optimizer")
WORLDS: dict[str, dict[str, Any]] = {
    "as assumed": {"lags": ((1.0, 0.008),)},
    "delay 22 ms": {"delay_s": 0.022},
    "tau 45 ms": {"lags": ((1.0, 0.045),)},
    "25 of 100 ms": {"part": 0.25},
    "moving average 25 ms": {"average_s": 0.025},
    "wander 4 ms": {"lags": ((1.0, 0.008),), "wander_s": 0.004},
}
RESOLVED, LOWER_BOUND = 120, 0.88


def of_run(job: tuple[str, int], seconds: float) -> dict[str, Any]:
    """One training: what its report says of each phase, and what is true."""
    world, number = job
    seed = 1000 * list(WORLDS).index(world) + number

    def prepare(rig: NvmlRig) -> None:
        rig.set_response(0, **WORLDS[world])

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(seed, seconds, prepare, folder)
        report, truth = report_of(folder), stamped_energy(folder)
    rows = {row["phase"]: row for row in report["phases"] if row["device"] == "gpu0"}
    meters = [s for s in report["sources"] if s["device"] == "gpu0" and s["in_total"]]
    source = meters[0] if meters else {}
    return {
        "world": world,
        "seed": seed,
        "method": source.get("method"),
        "response": source.get("response"),
        "fit": source.get("fit"),
        "warnings": report["warnings"],
        "phases": {phase: of_phase(rows.get(phase), truth[phase]) for phase in PHASES},
    }


def of_phase(row: dict[str, Any] | None, truth_j: float) -> dict[str, Any]:
    """What the report says of a phase beside the truth, J."""
    if row is None:
        return {"truth_j": round(truth_j, 2), "status": None, "energy_j": None, "held": None}
    interval = row["energy_j_interval"]
    held = interval[0] <= truth_j <= interval[1] if interval else None
    return {
        "truth_j": round(truth_j, 2),
        "status": row["status"],
        "energy_j": row["energy_j"] and round(row["energy_j"], 2),
        "interval_j": interval and [round(limit, 2) for limit in interval],
        "held": held,
    }


def misattributed(run: dict[str, Any]) -> float:
    """In %, over the phases whose energy the report names."""
    rows = run["phases"].values()
    errors = [abs(r["energy_j"] - r["truth_j"]) for r in rows if r["energy_j"] is not None]
    return float(50 * sum(errors) / sum(r["truth_j"] for r in rows))


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one world, or of all."""
    rows = [row for run in runs for row in run["phases"].values()]
    resolved = [row for row in rows if row["status"] == "resolved"]
    shares = [misattributed(run) for run in runs]
    return {
        "runs": len(runs),
        "phases": len(rows),
        "unnamed": sum(row["energy_j"] is None for row in rows),
        "resolved": len(resolved),
        "held": sum(row["held"] for row in resolved),
        "misattributed_median": round(float(np.median(shares)), 3),
        "misattributed_p95": round(float(np.percentile(shares, 95)), 3),
    }


def lower_bound(held: int, of: int) -> float:
    """One-sided 95 % Clopper–Pearson bound of a share."""
    return float(beta.ppf(0.05, held, of - held + 1)) if held else 0.0


def say(name: str, figures: dict[str, Any]) -> None:
    """Print the figures of a world as one line."""
    print(
        f"  {name:22}{figures['misattributed_median']:>8.2f}{figures['misattributed_p95']:>7.2f}"
        f"{figures['resolved']:>6} of {figures['phases']:<4}{figures['held']:>5} hold"
        f"{figures['unnamed']:>5} without energy",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=10, help="of each world")
    options.add_argument("--seconds", type=float, default=45.0)
    options.add_argument("--worlds", default=",".join(WORLDS))
    options.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    args = options.parse_args()
    worlds = args.worlds.split(",")
    if unknown := [world for world in worlds if world not in WORLDS]:
        options.error(f"no world {unknown[0]!r}; there are {', '.join(WORLDS)}")
    runs: list[dict[str, Any]] = []
    print(f"{args.runs} trainings of {args.seconds:g} s each; misattributed share in %")
    print(f"  {'world':22}{'median':>8}{'p95':>7}{'resolved':>12}")
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = [(world, number) for world in worlds for number in range(args.runs)]
        results = pool.map(partial(of_run, seconds=args.seconds), jobs)
        for world in worlds:
            of_world = [next(results) for _ in range(args.runs)]
            runs += of_world
            say(world, summary(of_world))
            for what in ("response", "fit"):
                if of_world[0][what] is not None:
                    print(f"    {what} of the first: {of_world[0][what]}")
    every = summary(runs)
    bound = lower_bound(every["held"], every["resolved"])
    print(
        f"{every['held']} of {every['resolved']} resolved intervals hold; bar {RESOLVED}, "
        f"lower bound {bound:.1%}, bar {LOWER_BOUND:.0%}"
    )
    result = {
        "seconds": args.seconds,
        "worlds": {world: summary([r for r in runs if r["world"] == world]) for world in worlds},
        "all": every | {"lower_bound": round(bound, 4)},
        "each": runs,
    }
    save("energy/end_to_end", result)
    sys.exit(every["resolved"] < RESOLVED or bound < LOWER_BOUND)


if __name__ == "__main__":
    main()
