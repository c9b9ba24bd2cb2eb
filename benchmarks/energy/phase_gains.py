"""Pairs of runs in which only one phase got cheaper: does the comparison say so?

    python -m benchmarks.energy.phase_gains [--seeds 5] [--runs 4] [--at-once 3]

Each pair is recorded by the real recorder from a simulated power meter. Phases draw known powers
for times that vary by 12 % from step to step (tests/scripts/train_for_compare.py); in the other
side forward or backward takes a third of the time, or data a sixth. A pair is right if at least
90 % of the gain stands in that phase, its verdict is `gain`, and no other phase's verdict is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.results import save
from probe.compare import compare
from probe.compare.gain import Verdict
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.scripts import SCRIPTS

CHEAPER = {
    "forward": {"forward_ms": 6.0},
    "backward": {"backward_ms": 10.0},
    "data": {"data_ms": 10.0},
}
BASE: dict[str, dict[str, float]] = {"forward": {}, "backward": {}, "data": {"data_ms": 60.0}}
STEPS = 120
SHARE, RIGHT = 0.9, 14 / 15


@dataclass(frozen=True, slots=True)
class Pair:
    """What one comparison says of a pair in which only ``phase`` got cheaper."""

    phase: str
    seed: int
    share: float
    verdict: str
    others: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the gain stands in that phase and in no other."""
        return self.share >= SHARE and self.verdict == Verdict.GAIN and not self.others


def record(folder: Path, name: str, seed: int, given: dict[str, float]) -> None:
    """One run, with a meter of its own that is the same card in all runs."""
    folder.mkdir(parents=True)
    rig = NvmlRig(folder, gpus=1, power_w=60.0, period_s=0.1, jitter_s=0.0002)
    subprocess.run(
        [
            sys.executable,
            str(SCRIPTS / "train_for_compare.py"),
            name,
            str(seed),
            str(STEPS),
            json.dumps(given),
        ],
        env=processes.environment(folder.parent / "runs", rig.env()),
        check=True,
        capture_output=True,
        timeout=120,
    )


def judged(folder: Path, phase: str, seed: int) -> Pair:
    """Compare both sides of a pair by what a sample costs, without a target."""
    (comparison,) = compare("base", ["other"], directory=folder / "runs").comparisons
    saved = {row.phase: row.gain_j for row in comparison.phases}
    whole = comparison.per_sample.gain_j or 0.0
    named = next(row for row in comparison.phases if row.phase == phase)
    others = tuple(
        row.phase for row in comparison.phases if row.phase != phase and row.verdict is Verdict.GAIN
    )
    return Pair(phase, seed, (saved[phase] or 0.0) / whole, str(named.verdict), others)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--runs", type=int, default=4, help="of each side")
    options.add_argument("--at-once", type=int, default=3, help="runs that are recorded together")
    options.add_argument("--phases", nargs="+", choices=[*CHEAPER], default=[*CHEAPER])
    args = options.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(args.at_once) as pool:
        jobs = []
        for phase in args.phases:
            for seed in range(args.seeds):
                folder = Path(place) / f"{phase}-{seed}"
                for run in range(args.runs):
                    block = 100 * seed + run
                    sides = {"base": BASE[phase], "other": BASE[phase] | CHEAPER[phase]}
                    for name, given in sides.items():
                        jobs.append(
                            pool.submit(record, folder / f"{name}-{run}", name, block, given)
                        )
        for job in jobs:
            job.result()
        for phase in args.phases:
            for seed in range(args.seeds):
                pair = judged(Path(place) / f"{phase}-{seed}", phase, seed)
                pairs.append(pair)
                also = f"; also {', '.join(pair.others)}" if pair.others else ""
                print(
                    f"only {phase} got cheaper, seed {seed}: {100 * pair.share:.1f} % of the gain, "
                    f"{pair.verdict}{also}{'' if pair.is_right else '  MISSED'}",
                    flush=True,
                )
    right = sum(pair.is_right for pair in pairs)
    print(f"{right} of {len(pairs)} are right; bar {RIGHT:.3f}")
    if args.phases == [*CHEAPER]:
        save(
            "energy/phase_gains",
            {
                "right": right,
                "pairs": [
                    {
                        "phase": pair.phase,
                        "seed": pair.seed,
                        "share": round(pair.share, 4),
                        "verdict": pair.verdict,
                        "others": list(pair.others),
                    }
                    for pair in pairs
                ],
            },
        )
    sys.exit(right < RIGHT * len(pairs))


if __name__ == "__main__":
    main()
