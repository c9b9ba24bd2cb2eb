"""Does `probe demo` find what its simulated card truly used in forward and in backward?

    python -m benchmarks.energy.demo [--runs 20] [--seconds 40]

Each run is a process of its own, as the command is. Bars: forward and backward are both resolved
in at least 90 % of the runs (of 20: 18), and at least 90 % of their resolved intervals hold the
truth. The meter is simulated: these figures say how right the estimator is, nothing of a card.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.results import ROOT, save

PHASES = ("data", "forward", "backward", "optimizer")
JUDGED = ("forward", "backward")
SHARE = 0.9

_CHILD = """\
import json, sys
from probe.demo.demo import run_demo
done = run_demo(sys.argv[1], float(sys.argv[2]), [])
rows = {row.phase: row for row in done.report.phases if row.device == "gpu0"}
print(json.dumps({
    "steps": done.report.run.steps,
    "phases": {
        phase: {
            "truth_j": done.true_j[phase],
            "status": str(rows[phase].status),
            "energy_j": rows[phase].energy_j,
            "interval_j": rows[phase].energy_j_interval,
        }
        for phase in sys.argv[3:]
    },
}))
"""


def of_run(seconds: float) -> dict[str, Any]:
    """One demo: what is true of each phase, and what was found, J."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", _CHILD, folder, str(seconds), *PHASES]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    run: dict[str, Any] = json.loads(done.stdout)
    for row in run["phases"].values():
        low, high = row["interval_j"] or (None, None)
        row["held"] = None if low is None else low <= row["truth_j"] <= high
    return run


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over the runs: resolved and held, by phase, and whether the bars are met."""
    by_phase = {}
    for phase in PHASES:
        rows = [run["phases"][phase] for run in runs]
        resolved = [row for row in rows if row["status"] == "resolved"]
        by_phase[phase] = {
            "resolved": len(resolved),
            "held": sum(bool(row["held"]) for row in resolved),
        }
    both = sum(all(run["phases"][p]["status"] == "resolved" for p in JUDGED) for run in runs)
    judged = sum(by_phase[phase]["resolved"] for phase in JUDGED)
    held = sum(by_phase[phase]["held"] for phase in JUDGED)
    return {
        "runs": len(runs),
        "both_resolved": both,
        "phases": by_phase,
        "ok": both >= SHARE * len(runs) and held >= SHARE * judged > 0,
    }


def main() -> int:
    """Run the demos, print a line for each, and return 0 if the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    runs = []
    for number in range(options.runs):
        run = of_run(options.seconds)
        runs.append(run)
        words = {None: "", True: " held", False: " MISSED"}
        rows = run["phases"].items()
        said = ", ".join(f"{phase} {row['status']}{words[row['held']]}" for phase, row in rows)
        print(f"{number + 1:3} {run['steps']:5} steps  {said}", flush=True)
    figures = summary(runs)
    print(json.dumps(figures, indent=1))
    save("energy/demo", {"seconds": options.seconds, **figures, "each": runs})
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
