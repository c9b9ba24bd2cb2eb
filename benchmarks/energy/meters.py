"""Joules per phase under each kind of meter, on simulated runs of known power.

    python -m benchmarks.energy.meters [--runs 24] [--first 0]

Training steps of 60 ms under each kind of meter that the product regresses, read as its sensor
reads it, through the same choice of estimator. No run with a resolved phase may be worse than the
split by time, and resolved intervals must hold the truth. (Cray's pm_counters are read too rarely
to say when they moved: regressed, 3 of 10 resolved intervals did not hold. So they are not. Nor is
a counter of 25 ms that is read every 20 ms.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.energy.attribution import metered
from benchmarks.harness.results import save
from probe.attribution.estimate import estimate
from probe.attribution.meter_kinds import accumulator_of
from probe.attribution.spans import Spans
from probe.model import Kind, Provenance, Source, Status
from probe.sensors._schedule import IrregularPeriods
from tests.fakes.power_sensors import Counter, Floats, PolledPower, Reads, scheduled_reads
from tests.fakes.power_traces import STEPS, Trace, World, make_trace

HELD, BOTH_RESOLVED = 93.0, 80.0
STEP = "60 ms"
LATE_S = 0.0003  # mean delay of a thread that wakes up
Rng = np.random.Generator


def _source(quantity: str, **more: Any) -> Source:
    counter = quantity == "energy"
    fields: dict[str, Any] = {
        "id": "made:0",
        "device": "gpu0",
        "quantity": quantity,
        "unit": "J" if counter else "W",
        "kind": Kind.COUNTER if counter else Kind.GAUGE,
        "provenance": Provenance.MEASURED,
        "in_total": True,
    }
    return Source(**fields | more)


def _tracked(sensor: Counter) -> Callable[[Trace, Rng], Reads]:
    """Read around its updates, as NVML's are."""

    def read(trace: Trace, rng: Rng) -> Reads:
        at, value = sensor.updates(trace, rng)
        return scheduled_reads(at, value, float(trace.edges_s[-1]), rng)

    return read


def _irregular(sensor: Counter, every_s: float) -> Callable[[Trace, Rng], Reads]:
    """Read as sensors read fast counters, by a thread that wakes up a little late."""

    def read(trace: Trace, rng: Rng) -> Reads:
        at, value = sensor.updates(trace, rng)
        periods, end_s = IrregularPeriods(), float(trace.edges_s[-1])
        shares = np.array([periods.next_share() for _ in range(round(1.2 * end_s / every_s))])
        times = np.cumsum(every_s * shares)
        times = times[times < end_s]
        times = times + rng.exponential(LATE_S, len(times))
        place = np.searchsorted(at, times, "right") - 1
        kept = place >= 0
        span = np.full(int(kept.sum()), 2e-5)
        return Reads(times[kept] + 1e-5, span, value[place[kept]])

    return read


def _buffer(trace: Trace, rng: Rng) -> Reads:
    """The driver's samples: each the mean since the one before, at an exact instant."""
    at = np.arange(0.02 * rng.random(), float(trace.edges_s[-1]), 0.02)
    watts = np.diff(trace.energy(at)) / np.diff(at)
    return Reads(at[1:], np.zeros(len(watts)), watts)


@dataclass(frozen=True, slots=True)
class Meter:
    """A kind of meter: its source, how it is read, and whether it must resolve the two passes."""

    source: Source
    reads: Callable[[Trace, Rng], Reads]
    resolves: bool = True


METERS = {
    "counter": Meter(_source("energy"), _tracked(Counter(0.1))),
    "buffer": Meter(_source("power_samples", resolution_s=0.02), _buffer),
    "instant, full window": Meter(
        _source("power", tracked=True), _tracked(PolledPower(0.1, window_s=0.1))
    ),
    "1 s average": Meter(
        _source("power", tracked=True), _tracked(PolledPower(0.1, window_s=1.0)), resolves=False
    ),
    "RAPL": Meter(
        _source("energy", device="cpu0", resolution_s=0.001),
        _irregular(Counter(0.001, jitter_s=2e-5, grain_j=6.1e-5), 0.02),
    ),
    "amdsmi": Meter(
        _source("energy"), _irregular(Counter(0.001, jitter_s=2e-5, grain_j=1.53e-5), 0.02)
    ),
    "NVML counter of 10 ms": Meter(_source("energy"), _tracked(Counter(0.01))),
    "counter of 8 ms": Meter(_source("energy"), _irregular(Counter(0.008), 0.02)),
    "counter of 25 ms": Meter(_source("energy"), _irregular(Counter(0.025), 0.02), resolves=False),
}


def of_run(job: tuple[str, int]) -> dict[str, Any]:
    """One run of one meter: what is resolved, what holds, how far off beside the split by time."""
    name, seed = job
    meter = METERS[name]
    rng = np.random.default_rng([seed, list(METERS).index(name)])
    trace = make_trace(STEPS[STEP], 60.0, rng, World(lag=((1.0, 0.0),)))
    reads = meter.reads(trace, rng)
    accumulator = accumulator_of(meter.source)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    statistics = accumulator.finish()
    truth, lengths = metered(trace, statistics.begin_s, statistics.end_s)
    fit = estimate(statistics, float(truth.sum()), lengths)
    if fit is None:
        return {"resolved": [False] * len(truth), "held": [False] * len(truth), "worse": False}
    phases = [fit.of(place) for place in range(len(truth))]
    resolved = [phase.status is Status.RESOLVED for phase in phases]
    spent: Floats = np.array([lengths[place] for place in range(len(truth))])
    by_time = float(np.abs(spent / spent.sum() * truth.sum() - truth).sum())
    off = float(np.abs(np.array([phase.energy_j for phase in phases]) - truth).sum())
    return {
        "resolved": resolved,
        "held": [p.low_j <= t <= p.high_j for p, t in zip(phases, truth, strict=True)],
        "worse": any(resolved) and off > by_time,
        "misattributed": 50 * off / float(truth.sum()),
        "by_time": 50 * by_time / float(truth.sum()),
    }


def summary(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one meter, and the bars that are missed."""
    resolved, held = (np.array([run[key] for run in runs]) for key in ("resolved", "held"))
    stated = [run for run in runs if "misattributed" in run]
    figures = {
        "runs": len(runs),
        "resolved": int(resolved.sum()),
        "held_percent": round(100 * float((resolved & held).sum() / max(1, resolved.sum())), 1),
        "forward_and_backward_percent": round(100 * float(resolved[:, 1:3].all(1).mean()), 1),
        "worse_than_time_split": sum(run["worse"] for run in runs),
        "misattributed_median": _median(stated, "misattributed"),
        "by_time_median": _median(stated, "by_time"),
    }
    missed = []
    if figures["resolved"] and figures["held_percent"] < HELD:
        missed.append(f"held {figures['held_percent']}, bar {HELD:g}")
    if METERS[name].resolves and figures["forward_and_backward_percent"] < BOTH_RESOLVED:
        missed.append(f"resolved {figures['forward_and_backward_percent']}, bar {BOTH_RESOLVED:g}")
    if figures["worse_than_time_split"]:
        missed.append(f"{figures['worse_than_time_split']} runs worse than the split by time")
    return figures | {"missed": missed}


def _median(runs: list[dict[str, Any]], key: str) -> float | None:
    return round(float(np.median([run[key] for run in runs])), 2) if runs else None


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=24, help="of each meter")
    options.add_argument("--first", type=int, default=0, help="seed of the first")
    options.add_argument("--workers", type=int, default=os.cpu_count())
    args = options.parse_args()
    result: dict[str, Any] = {"runs": args.runs, "first": args.first, "meters": {}}
    seeds = range(args.first, args.first + args.runs)
    print(f"  {'meter':22}{'off':>6}{'by time':>9}{'both':>7}{'held':>8}  of resolved, %")
    with multiprocessing.Pool(args.workers) as pool:
        for name in METERS:
            figures = summary(name, pool.map(of_run, [(name, seed) for seed in seeds], chunksize=1))
            result["meters"][name] = figures
            missed = "; ".join(figures["missed"])
            print(
                f"  {name:22}{figures['misattributed_median'] or 0:>6.2f}"
                f"{figures['by_time_median'] or 0:>9.1f}"
                f"{figures['forward_and_backward_percent']:>7.0f}{figures['held_percent']:>8.1f}"
                f"  of {figures['resolved']}{'  MISSED ' + missed if missed else ''}",
                flush=True,
            )
    save("energy/meters", result)
    sys.exit(any(figures["missed"] for figures in result["meters"].values()))


if __name__ == "__main__":
    main()
