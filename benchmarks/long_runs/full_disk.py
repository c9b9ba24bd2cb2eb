"""What is lost of a run whose disk is full twice, at random moments.

    python -m benchmarks.long_runs.full_disk [--runs 20] [--at-once 4] [--seconds 64] [--spell 10]

Each run is written to a file system of its own that is filled to the last byte. Outside of the two
spells (two seconds longer each, in which recording may find its way back) the ends of phases must
be recorded, and the coverage that the report states must be that of the stored samples. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.results import save
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.phase_ends import SCRIPT, recorded
from tests.fakes.small_disk import fill, small_file_system

RECORDED, COVERAGE = 0.99, 0.01
AGAIN_S = 2.0  # after a spell, before everything is recorded again
SILENCE_S = 1.0  # between two updates of a meter: longer ones are not covered
WATTS = 250.0


@dataclass(frozen=True)
class Outcome:
    """Of one run: shares of phase ends recorded outside the spells and of time covered."""

    seed: int
    recorded: float
    coverage: float | None
    covered: float
    energy_share: float | None
    status: str
    lines: int

    @property
    def is_right(self) -> bool:
        """Whether it keeps what is promised."""
        return (
            self.recorded >= RECORDED
            and self.coverage is not None
            and abs(self.coverage - self.covered) <= COVERAGE
            and self.status == "finished"
        )


def measured(seed: int, seconds: float, spell_s: float) -> Outcome:
    """Train once, with the disk full twice."""
    random = np.random.default_rng(seed)
    free_s = seconds - 2 * (spell_s + AGAIN_S)
    first, second = np.sort(random.uniform(0.0, free_s, 2))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with small_file_system(place / "runs", "24m") as disk:
            rig = NvmlRig(place, gpus=1, power_w=WATTS, period_s=0.1)
            process = processes.start(
                SCRIPT, place, str(seconds), extra=rig.env(), stderr=subprocess.PIPE
            )
            assert process.stdout is not None
            run = Path(process.stdout.readline().strip())
            processes.await_recorder(run)
            time.sleep(first)
            spells = [fill(disk, spell_s)]
            time.sleep(AGAIN_S + second - first)
            spells.append(fill(disk, spell_s))
            output, errors = process.communicate(timeout=processes.HUNG_S)
            processes.wait_until(lambda: processes.sealed(run))
            ends = np.array(json.loads(output.splitlines()[-1]))
            held = recorded(run, _outside(ends, spells)).mean()
            shown = processes.probe(place, "report", str(run), "--format", "json")
            report = json.loads(shown.stdout)
            total = report["total"]
            duration_s = report["run"]["duration_s"]
            return Outcome(
                seed,
                float(held),
                total["coverage"],
                _covered(run),
                total["energy_j"] and total["energy_j"] / (WATTS * duration_s),
                report["run"]["status"],
                len(errors.splitlines()),
            )


def _outside(ends: np.ndarray, spells: list[tuple[int, int]]) -> np.ndarray:
    within = [
        (begin <= ends[:, 1]) & (ends[:, 1] <= stop + AGAIN_S * 1e9) for begin, stop in spells
    ]
    return ends[~np.any(within, axis=0)]


def _covered(run: Path) -> float:
    """The share of the run's time in which the GPU's counter was seen to move."""
    reader = RunReader(run)
    begin_ns, end_ns = reader.begin_ns, reader.end_ns()
    counters = [s for s in reader.series() if s.source.in_total and s.source.device == "gpu0"]
    shares = []
    for series in counters:
        times = series.time_ns[(series.time_ns >= begin_ns) & (series.time_ns <= end_ns)]
        between = np.diff(times)
        seen = between[between <= SILENCE_S * 1e9].sum()  # not before the first, after the last
        shares.append(seen / (end_ns - begin_ns))
    return float(min(shares, default=0.0))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--at-once", type=int, default=4)
    options.add_argument("--seconds", type=float, default=64.0, help="of each run")
    options.add_argument("--spell", type=float, default=10.0, help="seconds without space")
    args = options.parse_args()
    with ThreadPoolExecutor(args.at_once) as pool:
        outcomes = list(
            pool.map(lambda seed: measured(seed, args.seconds, args.spell), range(args.runs))
        )
    print("seed  phase ends recorded  coverage stated / of samples  energy  status")
    for each in outcomes:
        stated = "none" if each.coverage is None else f"{each.coverage:.1%}"
        energy = "none" if each.energy_share is None else f"{each.energy_share:.1%}"
        print(
            f"{each.seed:4}  {each.recorded:19.2%}  {stated:>15} / {each.covered:<9.1%}  "
            f"{energy:>6}  {each.status}"
        )
    right = sum(each.is_right for each in outcomes)
    print(
        f"{right} of {len(outcomes)} runs: at least {RECORDED:.0%} of phase ends outside the "
        f"spells recorded, coverage right to {COVERAGE:.0%}, finished"
    )
    save("long_runs/full_disk", {"runs": [asdict(each) for each in outcomes], "right": right})
    sys.exit(right < len(outcomes))


if __name__ == "__main__":
    main()
