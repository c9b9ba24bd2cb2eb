"""What the paper's stack gains over its baseline: samples/s, J/sample, MFU, MiB, on this machine.

    python -m benchmarks.training.stack --size full --seconds 60     on a GPU
    python -m benchmarks.training.stack --size tiny --seconds 10     on a CPU: no measured energy

Both models, both stacks, in turn, the same samples for both stacks of a model: as many as the
baseline takes the wanted seconds for. Each block is a process (peak memory). Throughput
and MFU are those of training, evaluations left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness.results import ROOT, save
from probe.report.build import report_of
from probe.store.reader import RunReader

EXAMPLES = {"resnet50": "resnet50_cifar10.py", "gpt2": "gpt2_wikitext2.py"}
STACKS = ("baseline", "paper")
FIRST = {"full": 2560, "tiny": 960}  # samples of the run that says how many there should be


def run(example: str, stack: str, samples: int, options: argparse.Namespace) -> dict[str, Any]:
    """One block: figures of its run."""
    with tempfile.TemporaryDirectory() as folder:
        given = [] if options.data is None else ["--data", options.data]
        done = subprocess.run(
            [
                sys.executable,
                str(ROOT / "examples" / example),
                "--stack",
                stack,
                "--size",
                options.size,
                "--samples",
                str(samples),
                *given,
            ],
            env=os.environ | {"PROBE_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{example} --stack {stack} failed:\n{done.stderr[-2000:]}")
        (path,) = Path(folder).iterdir()
        values = {name: logged[1] for name, logged in RunReader(path).values().items()}
        used = float(values["samples"].sum())
        total = report_of(path).to_dict()["total"]
        joules, interval = total["energy_j"], total["energy_j_interval"]
        return {
            "samples": used,
            "train_s": float(values["train_s"][-1]),
            "samples_per_s": used / float(values["train_s"][-1]),
            "joules_per_sample": None if joules is None else joules / used,
            "joules_half": None if joules is None else (interval[1] - interval[0]) / 2 / used,
            "mfu": float(values["mfu"][-1]) if "mfu" in values else None,
            "peak_memory_mib": float(values["peak_memory_bytes"][-1]) / 2**20,
        }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--size", choices=list(FIRST), default="tiny")
    options.add_argument("--seconds", type=float, default=10.0, help="of a block of the baseline")
    options.add_argument("--blocks", type=int, default=3)
    options.add_argument("--data")
    args = options.parse_args()
    result: dict[str, Any] = {"size": args.size, "seconds": args.seconds, "models": {}}
    for model, example in EXAMPLES.items():
        speed = run(example, "baseline", FIRST[args.size], args)["samples_per_s"]
        samples = max(FIRST[args.size], int(speed * args.seconds))
        blocks: dict[str, list[dict[str, Any]]] = {stack: [] for stack in STACKS}
        for number in range(args.blocks):
            for stack in STACKS if number % 2 == 0 else STACKS[::-1]:
                blocks[stack].append(run(example, stack, samples, args))
        result["models"][model] = blocks
        print(f"\n{model}, {args.size}, {samples:,} samples, {args.blocks} blocks; medians")
        for stack, rows in blocks.items():
            print(
                "  "
                + f"{stack:10}"
                + "".join(
                    figure(key, unit, rows)
                    for key, unit in (
                        ("samples_per_s", "samples/s"),
                        ("joules_per_sample", "J/sample"),
                        ("mfu", "MFU"),
                        ("peak_memory_mib", "MiB at the peak"),
                    )
                )
            )
    save(f"training/stack-{args.size}", result)


def figure(key: str, unit: str, rows: list[dict[str, Any]]) -> str:
    values = [row[key] for row in rows]
    if any(value is None for value in values):
        return f"{'no measured':>16} {unit}"
    return f"{statistics.median(values):>16.4g} {unit}"


if __name__ == "__main__":
    main()
