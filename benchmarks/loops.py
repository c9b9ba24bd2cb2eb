"""Steps, phases and seconds of loops that people write: the true ones beside those that we report.

    python benchmarks/loops.py [NAME …] [--way "probe run"]

Every loop of tests/loops/archetypes.py is trained in a process of its own under `watch()`, under
`watch(model, optimizer)` and, unchanged, under `probe run`; the report of each run is held beside
the loop's own count. A case is right if all counts are exact, the seconds of every phase are within
2 % or 15 µs a call, whichever is more (of a few measurements the least disturbed counts:
the file says of how many), and the report warns of nothing that is not so. A
case that is wrong counts as silent unless the report says so.

Bar: at least nine cases in ten are right, none is wrong and silent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.harness.results import machine, save  # noqa: E402
from tests.loops.archetypes import LOOPS  # noqa: E402
from tests.loops.compare import PHASES, differences  # noqa: E402
from tests.loops.train import PROBE_RUN, WAYS  # noqa: E402

# What cannot be known, before it is tried: until a backward runs, nothing under `probe run` tells
# that a process trains which makes no optimizer and has no loader. The report says so.
UNKNOWN = {
    (name, PROBE_RUN)
    for name in ("written_by_data", "written_and_evaluated", "written_from_grad", "no_module")
}
USUAL = ("no energy meter was found",)  # warnings that are no word about phases
SHARE = 0.9
MEASUREMENTS = 4  # another process may take the core between our look at the clock and the truth's


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("names", nargs="*", default=list(LOOPS), metavar="NAME")
    arguments.add_argument("--way", action="append", choices=WAYS)
    options = arguments.parse_args()
    ways = options.way or list(WAYS)
    cases = []
    for name in options.names:
        for way in ways:
            cases.append(least_disturbed(name, way))
            print(line(cases[-1]), flush=True)
    right = sum(not each["wrong"] and not each["warnings"] for each in cases)
    silent = [each for each in cases if each["wrong"] and not each["warnings"]]
    unknown = sum((each["name"], each["way"]) in UNKNOWN for each in silent)
    print(f"right: {right} of {len(cases)}")
    print(f"wrong and silent: {len(silent) - unknown}, and {unknown} that were named beforehand")
    if len(cases) == len(LOOPS) * len(WAYS):
        save("loops", {"machine": machine(), "right": right, "cases": cases})
    return 0 if right >= SHARE * len(cases) and len(silent) == unknown else 1


def least_disturbed(name: str, way: str) -> dict[str, Any]:
    """Of a few measurements the first whose seconds are right; counts must be so at once."""
    for number in range(1, MEASUREMENTS + 1):
        measured = case(name, way) | {"measurements": number}
        if not all("seconds" in wrong for wrong in measured["wrong"]) or not measured["wrong"]:
            break
    return measured


def case(name: str, way: str) -> dict[str, Any]:
    """Train one loop one way; what was true, what was seen and what of it is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        truth_file, runs = Path(folder) / "truth.json", Path(folder) / "runs"
        command = [sys.executable, "-m", "tests.loops.train", name, way, str(truth_file), str(runs)]
        if way == PROBE_RUN:
            command = ["-m", "probe", "run", "--dir", str(runs), "--quiet", "--", *command]
            command = [sys.executable, *command]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "probe",
                "report",
                str(next(runs.iterdir())),
                "--format",
                "json",
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        report, true = json.loads(done.stdout), json.loads(truth_file.read_text())
    device = report["phases"][0]["device"] if report["phases"] else ""
    rows = [row for row in report["phases"] if row["device"] == device]
    count = {row["phase"]: row["count"] for row in rows}
    seconds = {row["phase"]: row["time_s"] for row in rows}
    steps = report["run"]["steps"]
    return {
        "name": name,
        "way": way,
        "steps": [true["steps"], steps],
        "counts": {p: [true["count"].get(p, 0), count.get(p, 0)] for p in PHASES},
        "seconds": {p: [true["seconds"].get(p, 0.0), seconds.get(p, 0.0)] for p in PHASES},
        "wrong": [str(difference) for difference in differences(true, steps, count, seconds)],
        "warnings": [w for w in report["warnings"] if not w.startswith(USUAL)],
    }


def line(case_: dict[str, Any]) -> str:
    """One case in one line: true/seen of all that happened."""
    counts = {"steps": case_["steps"]} | case_["counts"]
    figures = [f"{what} {true}/{seen}" for what, (true, seen) in counts.items() if true or seen]
    verdict = "right" if not case_["wrong"] else "; ".join(case_["wrong"])
    said = f"   said: {'; '.join(case_['warnings'])}" if case_["warnings"] else ""
    return f"{case_['name']:28}{case_['way']:26}{'  '.join(figures)}   {verdict}{said}"


if __name__ == "__main__":
    sys.exit(main())
