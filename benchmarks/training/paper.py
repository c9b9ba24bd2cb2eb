"""The paper's Tables I to III at laptop size: small models, real data, two cores.

    python -m benchmarks.training.paper --data FOLDER                five seeds
    python -m benchmarks.training.paper --data FOLDER --keep RUNS    kept, and gone on with

FOLDER has ``cifar10/`` and ``wikitext-2/`` as the examples take them. Each seed trains the baseline
and the paper's stack on the same samples, in turns and in fresh processes; then `probe ablate` adds
the techniques of Table III one after the other. The tables are those of `probe tables`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.harness.results import ROOT, save
from benchmarks.training.examples import Task, check_data, train
from probe.compare import compare
from probe.compare.paper.tables import tables
from probe.compare.paper.text import text
from probe.report.serialization import to_dict

# To a quality that every run reaches, or what it takes is only bounded.
TASKS = {
    "I": Task("convolutional", "resnet50_cifar10.py", "cifar10", 19_200, 1_600, "accuracy>=0.42"),
    "II": Task("transformer", "gpt2_wikitext2.py", "wikitext-2", 3_200, 160, "perplexity<=16"),
}
STACKS = ("baseline", "paper")
# Table III's, with the settings that Stack.paper() has on a CPU.
COMPONENTS = "accumulation(k=4),precision(dtype=bf16,mode=master),schedule,checkpointing"


def train_pairs(task: Task, seeds: int, data: Path, folder: Path, scale: float) -> None:
    """Train what is missing of all pairs."""
    for seed in range(seeds):
        for stack in STACKS if seed % 2 == 0 else STACKS[::-1]:
            runs = folder / stack / str(seed)
            if (runs / "trained").exists():
                continue
            train([*task.words(data, scale), "--stack", stack, "--seed", str(seed)], runs)
            (runs / "trained").touch()


def ablate(task: Task, blocks: int, data: Path, folder: Path, scale: float) -> None:
    """Train Table III, or what is missing of it."""
    words = ["--techniques", COMPONENTS, "--blocks", str(blocks), "--dir", str(folder)]
    command = [sys.executable, *task.words(data, scale), "--stack", "{stack}", "--seed", "{seed}"]
    done = subprocess.run(
        [sys.executable, "-m", "probe", "ablate", *words, "--", *command],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)


def sides(folder: Path) -> tuple[str, str]:
    """The runs of the baseline and of the paper's stack, as `probe tables` takes them."""
    runs = [sorted(run.parent for run in folder.glob(f"{stack}/*/*/run.json")) for stack in STACKS]
    base, other = (",".join(map(str, side)) for side in runs)
    return base, other


def causes(base: str, other: str, target: str, directory: Path) -> dict[str, Any]:
    """Why it takes more or less: seconds by fewer and by cheaper samples, bytes by part of memory.

    Of a small model most of the memory is the process itself.
    """
    comparison = compare(base, [other], directory=directory, target=target).comparisons[0]
    time_s, parts = comparison.time_s, comparison.memory_bytes.components
    return {
        "fewer_samples_s": [time_s.progress, time_s.progress_interval],
        "cheaper_samples_s": [time_s.cost, time_s.cost_interval],
        "memory_parts": [(part.component, part.base or 0.0, part.other or 0.0) for part in parts],
    }


def results_of(name: str, place: Path, ablation: Path | None) -> dict[str, Any]:
    """Print and return the tables of a task's runs."""
    task = TASKS[name]
    base, other = sides(place / name)
    of_paper = tables(
        base, other, directory=place, target=task.target, table=name, ablation=ablation
    )
    print(f"\n{text(of_paper)}\n")
    why = causes(base, other, task.target, place)
    for cause in ("fewer_samples_s", "cheaper_samples_s"):
        saved_s, limits = why[cause]
        if limits:
            print(f"saved by {cause}: {saved_s:.1f} ({limits[0]:.1f} … {limits[1]:.1f})")
    for part, of_base, of_other in why["memory_parts"]:
        print(f"memory: {part:12} {of_base / 1e6:9.1f} MB {of_other / 1e6:9.1f} MB")
    return task._asdict() | {"tables": to_dict(of_paper)} | why


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with cifar10/ and wikitext-2/")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=3, help="of Table III")
    parser.add_argument("--keep", type=Path, metavar="RUNS", help="where the trainings stay")
    parser.add_argument("--scale", type=float, default=1.0, help="of the samples, for a trial")
    parser.add_argument("--tables", default="I,II,III")
    options = parser.parse_args()
    wanted = options.tables.split(",")
    if unknown := set(wanted) - {*TASKS, "III"}:
        parser.error(f"no table {min(unknown)!r}: there are I, II and III")
    if "I" not in wanted and "III" in wanted:
        parser.error("--tables: III stands beside I")
    check_data(parser, options.data, [TASKS[name] for name in wanted if name in TASKS])
    began = time.monotonic()
    result: dict[str, Any] = {
        "seeds": options.seeds,
        "blocks": options.blocks,
        "components": COMPONENTS,
    }
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as kept:
        place, data = Path(kept).resolve(), options.data.resolve()
        for name in (name for name in wanted if name in TASKS):
            train_pairs(TASKS[name], options.seeds, data, place / name, options.scale)
            ablation = place / "III" if name == "I" and "III" in wanted else None
            if ablation is not None:
                ablate(TASKS[name], options.blocks, data, ablation, options.scale)
            result[name] = results_of(name, place, ablation)
    print(f"{(time.monotonic() - began) / 60:.1f} min")
    if options.scale == 1.0 and {*wanted} == {*TASKS, "III"}:  # a part replaces no whole
        save("training/paper", result)


if __name__ == "__main__":
    main()
