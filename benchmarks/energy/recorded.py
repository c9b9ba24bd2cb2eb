"""How far joules per phase are off (% of the total) where power is that of real cards.

    python -m benchmarks.energy.recorded [FILE.npz ...] [--runs 24] [--seconds 60]

A recording holds the power of a card under a square wave, as an external meter saw it some thousand
times a second (`meter_s`, `meter_w10` in tenths of a watt), and when the load's host says that each
load began and ended (`on_s`, `off_s`). Training steps are cut out of it cycle by cycle, at those
logged marks: forward and backward of the load, communication of the fall behind it, data of what
follows. So edges are as late, as slow and as uneven as they were. A counter of 100 ms is made of
that power, and read when the product's own scheduler says so; so is a power reading (mean of its
last 100 ms, and of the last 25 ms of each 100), of a card that has no counter.

Then the card's own readings, as they were recorded beside the meter: a square wave whose period is
near that of the readings is locked, and must be refused.

Without a FILE: every 5050_*.npz in the folder that PHASEWATT_POWER_DATA names. The project itself
holds no recording; such files are made by GPU_Power_Benchmark (Yang et al.).
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.energy.attribution import accumulated, metered
from benchmarks.harness.results import save
from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import estimate
from probe.attribution.meter.power_updates import PowerUpdateFinder
from probe.attribution.regression.statistics import Statistics
from probe.attribution.response.response import Response
from probe.attribution.spans import Spans
from probe.model import Status
from tests.fakes.power_sensors import Counter, Floats, PolledPower, Reads, scheduled_reads
from tests.fakes.power_traces import Trace

NAMES = ("forward", "backward", "communication", "data")
FORWARD_S = 0.018  # backward is the rest of the load, some 33 ms
COMMUNICATION_S = 0.003  # of what follows the load
DATA_S = (0.003, 0.018)  # then so long, drawn for each step
COLD = 4  # cycles at first, in which the card has not reached its clock yet: left out
COUNTER = Counter(0.1, skew=0.012, jitter_s=0.0002)
POLLED = {
    "polled": PolledPower(0.1, skew=0.012, jitter_s=0.0002, window_s=0.1),
    "25 of 100": PolledPower(0.1, skew=0.012, jitter_s=0.0002, window_s=0.025),
}
RESPONSES = ("inferred", "given", *POLLED)
#       misattributed, median
BARS = {"inferred": 0.5, "given": 0.3, "polled": 0.8, "25 of 100": 0.8}
HELD = 91.0
GAIN = 0.10  # by which a card's readings may differ from an external meter
FEWEST_CYCLES = 20
READINGS = ("power_draw_instant", "power_draw")


def recordings(given: Sequence[str]) -> list[Path]:
    """The files that are asked for, or all that lie where recordings are kept."""
    if given:
        return [Path(name) for name in given]
    folder = os.environ.get("PHASEWATT_POWER_DATA")
    return sorted(Path(folder).glob("5050_*.npz")) if folder else []


def steps_of(path: Path, seconds: float, rng: np.random.Generator) -> Trace:
    """Training steps cut out of a recording: its cycles there and back, from a random one on."""
    with np.load(path) as fields:
        meter_s, watts = fields["meter_s"], fields["meter_w10"] / 10.0
        on, off = fields["on_s"], fields["off_s"]
    samples = np.concatenate([meter_s[:1], (meter_s[1:] + meter_s[:-1]) / 2, meter_s[-1:]])
    cycles = np.arange(COLD, min(len(on) - 1, len(off)))
    if not len(cycles):
        raise SystemExit(f"{path}: it needs more than {COLD + 1} cycles of load and rest")
    there_and_back = np.concatenate([cycles, cycles[::-1]])
    place = int(rng.integers(len(there_and_back)))
    lengths: list[Floats] = []
    powers: list[Floats] = []
    phase_s: list[float] = []
    elapsed_s = 0.0
    while elapsed_s < seconds:
        cycle = there_and_back[place % len(there_and_back)]
        place += 1
        fallen = off[cycle] + COMMUNICATION_S
        ready = min(fallen + rng.uniform(*DATA_S), on[cycle + 1])
        marks = (on[cycle], on[cycle] + FORWARD_S, off[cycle], fallen, ready)
        for begin, end in itertools.pairwise(marks):
            first, last = np.searchsorted(samples, [begin, end], "right")
            edges = np.concatenate([[begin], samples[first:last], [end]])
            lengths.append(np.diff(edges))
            powers.append(watts[first - 1 : last])
            phase_s.append(end - begin)
        elapsed_s += ready - on[cycle]
    borders = np.concatenate([[0.0], np.cumsum(phase_s)])
    edges = np.concatenate([[0.0], np.cumsum(np.concatenate(lengths))])
    code = np.tile(np.arange(len(NAMES)), len(phase_s) // len(NAMES))
    return Trace(NAMES, edges, np.concatenate(powers), borders, code, ((1.0, 0.0),), borders)


def polled(trace: Trace, reads: Reads) -> Statistics:
    """The statistics of a trace and the reads of a power reading, in W."""
    accumulator = Accumulator(None, PowerUpdateFinder(), polled=True)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    return accumulator.finish()


def as_recorded(path: Path) -> list[dict[str, Any]]:
    """What the card's own readings say of the square wave's two turns; empty of other files."""
    with np.load(path) as fields:
        on, off = fields["on_s"], fields["off_s"]
        name = next((name for name in READINGS if name in fields.files), None)
        if len(on) < FEWEST_CYCLES or name is None:
            return []
        meter_s, meter_w = fields["meter_s"], fields["meter_w10"] / 10.0
        read_s, watts = fields["read_s"], fields[name].astype(np.float64)
    border_s = np.sort(np.concatenate([on[: len(off)], off]))
    code = np.arange(len(border_s) - 1) % 2
    edges = np.append(meter_s, meter_s[-1] + (meter_s[-1] - meter_s[-2]))
    trace = Trace(("on", "off"), edges, meter_w, border_s, code, ((1.0, 0.0),), border_s)
    inside = (read_s > border_s[0] - 1) & (read_s < border_s[-1])
    reads = Reads(read_s[inside], np.zeros(int(inside.sum())), watts[inside])
    statistics = polled(trace, reads)
    truth, lengths = metered(trace, statistics.begin_s, statistics.end_s)
    fit = estimate(statistics, None, lengths)
    rows = []
    for place, turn in enumerate(trace.names):
        phase = None if fit is None else fit.of(place)
        resolved = phase is not None and phase.status is Status.RESOLVED
        missed = phase is not None and (
            phase.high_j < truth[place] * (1 - GAIN) or phase.low_j > truth[place] * (1 + GAIN)
        )
        rows.append(
            {
                "turn": turn,
                "truth_j": round(float(truth[place]), 1),
                "status": "no estimate" if phase is None else str(phase.status),
                "why": "" if phase is None else phase.why,
                "resolved_and_missing": resolved and missed,
            }
        )
    return rows


def estimated(trace: Trace, reads: Reads, response: str) -> tuple[Any, Floats]:
    """(the estimate of each phase, its true joules) of one of RESPONSES."""
    if response in POLLED:
        statistics = polled(trace, reads)
    else:
        statistics = accumulated(trace, reads, Response() if response == "given" else None)
    truth, lengths = metered(trace, statistics.begin_s, statistics.end_s)
    total = statistics.mixed_j + float(statistics.direct()[0].sum())
    fit = estimate(statistics, total, lengths)
    assert fit is not None
    return [fit.of(j) for j in range(len(trace.names))], truth


def of_run(seed: int, path: Path, seconds: float) -> dict[str, Any]:
    """One run: per response how much is misattributed, and which intervals hold the truth."""
    rng = np.random.default_rng(seed)
    trace = steps_of(path, seconds, rng)
    at, value = COUNTER.updates(trace, rng)
    end_s = float(trace.edges_s[-1])
    counter = scheduled_reads(at, value, end_s, rng)
    result = {}
    for response in RESPONSES:
        reads = counter
        if response in POLLED:
            reads = scheduled_reads(*POLLED[response].updates(trace, rng), end_s, rng)
        phases, truth = estimated(trace, reads, response)
        energy = np.array([phase.energy_j for phase in phases])
        result[response] = {
            "misattributed": 50 * float(np.abs(energy - truth).sum() / truth.sum()),
            "error": (100 * (energy / truth - 1)).tolist(),
            "half": [
                100 * (p.high_j - p.low_j) / 2 / t for p, t in zip(phases, truth, strict=True)
            ],
            "resolved": [phase.status is Status.RESOLVED for phase in phases],
            "held": [bool(p.low_j <= t <= p.high_j) for p, t in zip(phases, truth, strict=True)],
        }
    return result


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one recording and one response, over all runs."""
    misattributed = [run["misattributed"] for run in runs]
    resolved, held = (np.array([run[name] for run in runs]) for name in ("resolved", "held"))
    error, half = (np.array([run[name] for run in runs]) for name in ("error", "half"))
    both = resolved & held
    phases = {
        name: {
            "resolved": int(resolved[:, j].sum()),
            "held": int(both[:, j].sum()),
            "error_median": round(float(np.median(error[:, j])), 2),
            "half_width_median": round(float(np.median(half[:, j])), 2),
        }
        for j, name in enumerate(NAMES)
    }
    return {
        "misattributed_median": round(float(np.median(misattributed)), 3),
        "misattributed_p95": round(float(np.percentile(misattributed, 95)), 3),
        "resolved": int(resolved.sum()),
        "phases_in_all": int(resolved.size),
        "held": int(both.sum()),
        "held_percent": round(100 * float(both.sum() / max(1, resolved.sum())), 1),
        "phases": phases,
    }


def judge(response: str, figures: dict[str, Any]) -> list[str]:
    """The bars that are missed."""
    missed = []
    if figures["misattributed_median"] > BARS[response]:
        missed.append(f"median {figures['misattributed_median']:g}, bar {BARS[response]:g}")
    if not figures["resolved"] or figures["held_percent"] < HELD:
        missed.append(f"held {figures['held_percent']:g}, bar {HELD:g}")
    return missed


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("files", nargs="*", metavar="FILE.npz")
    options.add_argument("--runs", type=int, default=24, help="of each recording")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--workers", type=int, default=os.cpu_count())
    args = options.parse_args()
    files = recordings(args.files)
    if not files:
        print("no recordings of real power here: PHASEWATT_POWER_DATA names no folder with any")
        return
    result: dict[str, Any] = {"runs": args.runs, "seconds": args.seconds, "recordings": {}}
    ok = True
    print(f"every 100 ms ± 1.2 %, {args.seconds:g} s, {args.runs} runs; shares in %")
    print(f"  {'recording':14}{'meter':10}{'median':>8}{'p95':>7}{'resolved':>12}{'held':>8}")
    with multiprocessing.Pool(args.workers) as pool:
        for path in files:
            job = partial(of_run, path=path, seconds=args.seconds)
            runs = pool.map(job, range(args.runs), chunksize=1)
            for response in RESPONSES:
                figures = summary([run[response] for run in runs])
                missed = judge(response, figures)
                ok &= not missed
                result["recordings"].setdefault(path.stem, {})[response] = figures | {
                    "missed": missed
                }
                say(path.stem, response, figures, missed)
            for row in (rows := as_recorded(path)):
                ok &= not row["resolved_and_missing"]
                why = f" ({row['why']})" if row["why"] else ""
                missed = "  MISSED: resolved and wrong" if row["resolved_and_missing"] else ""
                print(f"    own readings, {row['turn']:4}{row['status']}{why}{missed}", flush=True)
            result["recordings"][path.stem]["own readings"] = rows
    save("energy/recorded", result)
    sys.exit(not ok)


def say(recording: str, response: str, figures: dict[str, Any], missed: list[str]) -> None:
    """Print the figures, in all and by phase."""
    print(
        f"  {recording:14}{response:10}{figures['misattributed_median']:>8.2f}"
        f"{figures['misattributed_p95']:>7.2f}"
        f"{figures['resolved']:>6} of {figures['phases_in_all']:<3}{figures['held_percent']:>6.1f}%"
        f"{'  MISSED ' + '; '.join(missed) if missed else ''}"
    )
    for name, phase in figures["phases"].items():
        print(
            f"    {name:14} off by {phase['error_median']:+.2f} ± {phase['half_width_median']:.2f}"
            f", {phase['held']} of {phase['resolved']} resolved hold",
            flush=True,
        )


if __name__ == "__main__":
    main()
