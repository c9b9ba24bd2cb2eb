"""Does the recommended stack of a kind of model pay: time to the quality of the baseline.

    python -m benchmarks.training.recommended --data FOLDER            all tasks, six seeds
    python -m benchmarks.training.recommended --data FOLDER --tasks gpt2 --seeds 3

FOLDER has ``cifar10/`` and ``wikitext-2/`` as the examples take them; the third task, on which no
choice rested, is of scikit-learn's digits. Each seed trains the baseline and the stack, in turns,
in fresh processes and until the target is reached. The budget of samples is larger than a baseline
needs, for one that misses the target ends the comparison. The verdict is that of ``probe compare``.
Some of the tasks, fewer seeds or a part of the samples are printed and not stored.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.results import save
from benchmarks.training.examples import Task, check_data, train
from optimizers.recommended import stack_text
from probe.compare import compare
from probe.compare.formats import render
from probe.compare.model import ComparisonReport

SEEDS = 6
FIRST_SEED = 200  # cards that the stacks were chosen by had those below

TASKS = {
    "resnet": Task(
        "convolutional", "resnet50_cifar10.py", "cifar10", 48_000, 3_200, "accuracy>=0.5"
    ),
    "gpt2": Task("transformer", "gpt2_wikitext2.py", "wikitext-2", 19_200, 160, "perplexity<=16"),
    "digits": Task("convolutional", "resnet50_cifar10.py", "", 38_400, 640, "accuracy>=0.95"),
}


def measure(
    task: Task, stack: str, seeds: int, data: Path | None, scale: float
) -> ComparisonReport:
    """Train all pairs of a task and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder) / "baseline", Path(folder) / "recommended"]
        for number in range(seeds):
            pair = [*zip(("baseline", stack), sides, strict=True)]
            words = [*task.words(data, scale), "--target", task.target]
            for name, runs in pair if number % 2 == 0 else pair[::-1]:
                train([*words, "--stack", name, "--seed", str(FIRST_SEED + number)], runs)
        base, other = (",".join(str(run) for run in sorted(side.iterdir())) for side in sides)
        return compare(base, [other], directory=folder, target=task.target)


def figures(report: ComparisonReport) -> dict[str, Any]:
    """What is kept of a comparison."""
    (comparison,) = report.to_dict()["comparisons"]  # type: ignore[misc,index]
    kept = ("time_s", "memory_bytes", "energy_j", "quality", "verdict", "reason", "runs", "paired")
    return {name: comparison[name] for name in kept}  # type: ignore[index,call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with cifar10/ and wikitext-2/")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--scale", type=float, default=1.0, help="of the samples, for a trial")
    asked = parser.parse_args()
    names = asked.tasks.split(",")
    if unknown := set(names) - set(TASKS):
        parser.error(f"no task {min(unknown)!r}: there are {', '.join(TASKS)}")
    check_data(parser, asked.data, [TASKS[name] for name in names])
    result: dict[str, Any] = {"seeds": asked.seeds, "tasks": {}}
    for name in names:
        task, began = TASKS[name], time.monotonic()
        stack = stack_text("cpu", task.kind)
        report = measure(task, stack, asked.seeds, asked.data, asked.scale)
        minutes = (time.monotonic() - began) / 60
        print(f"\n{name}: {stack}, to {task.target}, {minutes:.1f} min\n")
        print(render(report, "text"))
        result["tasks"][name] = {**task._asdict(), "stack": stack, "minutes": minutes}
        result["tasks"][name] |= figures(report)
    if set(names) == set(TASKS) and asked.seeds >= SEEDS and asked.scale == 1:
        save("training/recommended", result)


if __name__ == "__main__":
    main()
