"""What `probe search` finds, against random search and the default, for the same cost.

    python -m benchmarks.training.search [--repeats 12] [--budget 150]

In each repeat the product's search runs with its budget on a real small training of nine knobs
(digits_mlp.py; a trial takes 1 to 5 s). Random search then gets as many seconds as the search has
used without its proof, draws settings evenly and keeps the fastest. Both winners and the default
are trained in turn on fresh seeds; a repeat is a pair of their mean times to the target. Bars, by
the paired 95 % interval over the repeats: the search's winner is faster than random search's, and
than the default.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from benchmarks.harness.results import ROOT, save
from benchmarks.training.digits_mlp import TARGET
from optimizers.search.command_line import CommandLine, placeholders
from optimizers.search.knobs import Knob, read_knobs
from optimizers.search.objective import Objective
from optimizers.search.outcome import Job, Limits, Settings
from optimizers.search.trainings.processes import ProcessTrainings
from probe.compare.quantity import sign_of
from probe.compare.statistics import paired
from probe.store.files import read_json
from probe.target import Target

NAMES = "batch"
OWN = (
    *("lr=log:1e-4..1", "momentum=0,0.5,0.8,0.95", "rule=adam", "decay=log:1e-4..10"),
    *("gain=log:0.1..3", "smoothing=0.1,0.3", "clipping=log:0.03..10", "dropout=0.1,0.3,0.5"),
)
SEEDS = 8  # fresh ones that each winner is trained on
COMMAND = [
    *(sys.executable, "-m", "benchmarks.training.digits_mlp", "--batch-size", "{batch}"),
    *("--lr", "{lr}", "--momentum", "{momentum}", "--rule", "{rule}", "--decay", "{decay}"),
    *("--gain", "{gain}", "--smoothing", "{smoothing}", "--clipping", "{clipping}"),
    *("--dropout", "{dropout}", "--seed", "{seed}"),
]


def product(folder: Path, budget_s: float) -> tuple[Settings, float, str]:
    """(the champion, seconds without the proof, the verdict) of `probe search`."""
    words = [sys.executable, "-m", "probe", "search", "--dir", str(folder), "--quiet"]
    words += ["--knobs", NAMES, "--target", TARGET, "--budget", f"{budget_s}s"]
    words += [word for knob in OWN for word in ("--knob", knob)]
    done = subprocess.run([*words, "--", *COMMAND], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    result: Any = read_json(folder / "result.json")
    settings = result["champion"] or dict.fromkeys(result["configurations"][0]["settings"])
    return settings, result["search"]["seconds"], result["verdict"]


def at_random(
    trainings: ProcessTrainings, knobs: list[Knob], seconds: float, seed: int
) -> Settings:
    """The fastest of settings that are drawn evenly; the default is the first of them."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    tried: list[tuple[float, Settings]] = []
    end = time.monotonic() + seconds
    longest = 0.0
    while time.monotonic() + longest < end:
        drawn = {knob.name: knob.suggest(study.ask()) for knob in knobs}
        settings = drawn if longest else dict.fromkeys(drawn)
        if not trainings.refused(settings):
            outcome = trainings.train(Job(f"random/{len(tried)}", settings, 0), Limits())
            longest = max(longest, outcome.cost.seconds)
            tried.append((outcome.value or float("inf"), settings))
    return min(tried, key=lambda each: each[0])[1]


def judged(
    trainings: ProcessTrainings, winners: dict[str, Settings], seed: int
) -> dict[str, float]:
    """Mean seconds to the target of each winner on fresh seeds, all trained in turn."""
    values: dict[str, list[float]] = {name: [] for name in winners}
    for at in range(SEEDS):
        for name, settings in winners.items():
            job = Job(f"judge/{name}-{at}", settings, 10_000 + SEEDS * seed + at)
            outcome = trainings.train(job, Limits())
            # What missed the target has taken at least all of its time.
            values[name].append(outcome.value or outcome.cost.seconds)
    return {name: statistics.fmean(each) for name, each in values.items()}


def repeat(number: int, budget_s: float) -> dict[str, Any]:
    """Both searches once, and how good what they found is."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        champion, seconds, verdict = product(place / "search", budget_s)
        knobs = read_knobs(NAMES, OWN, placeholders(COMMAND))
        command = CommandLine(COMMAND, knobs)
        trainings = ProcessTrainings(
            place, command, Objective("time"), Target.of(TARGET), needs_joules=False
        )
        random = at_random(trainings, knobs, seconds, number)
        winners = {"default": dict.fromkeys(champion), "search": champion, "random": random}
        values = judged(trainings, winners, number)
    return {"seconds": seconds, "verdict": verdict, "champion": champion, **values}


def compared(rows: list[dict[str, Any]], other: str) -> dict[str, Any]:
    """The seconds that the search's winner saves against another, paired by repeat."""
    saved = np.array([[row[other] - row["search"]] for row in rows])
    contrast = paired(saved)
    if not contrast.has_error:
        return {"saved_s": float(saved.mean()), "interval": None, "verdict": "no evidence"}
    half = float(contrast.half()[0])
    low, high = float(saved.mean()) - half, float(saved.mean()) + half
    return {"saved_s": float(saved.mean()), "interval": [low, high], "verdict": sign_of(low, high)}


def main() -> None:
    """Print a line for each repeat, then both verdicts; exit with 1 if a bar is missed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--repeats", type=int, default=12)
    options.add_argument("--budget", type=float, default=150.0, help="of a search, in s")
    args = options.parse_args()
    os.chdir(ROOT)
    rows = []
    print("seconds to the target on fresh seeds, means")
    print(f"  {'repeat':>6}{'default':>9}{'random':>9}{'search':>9}  verdict of the search's proof")
    for number in range(args.repeats):
        row = repeat(number, args.budget)
        rows.append(row)
        print(
            f"  {number:>6}{row['default']:>9.3f}{row['random']:>9.3f}{row['search']:>9.3f}"
            f"  {row['verdict']}",
            flush=True,
        )
    verdicts = {other: compared(rows, other) for other in ("random", "default")}
    for other, each in verdicts.items():
        limits = each["interval"]
        between = "" if limits is None else f" (95 %: {limits[0]:.3f} … {limits[1]:.3f} s)"
        print(f"  against {other}: saves {each['saved_s']:.3f} s{between}: {each['verdict']}")
    save("training/search", {"budget_s": args.budget, "repeats": rows, "against": verdicts})
    sys.exit(any(each["verdict"] != "gain" for each in verdicts.values()))


if __name__ == "__main__":
    main()
