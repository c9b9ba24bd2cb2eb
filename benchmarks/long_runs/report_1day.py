"""How long the report of a long run takes (s), and how much memory (MiB).

    python -m benchmarks.long_runs.report_1day                      24 h, 8 GPUs, 8 ranks
    python -m benchmarks.long_runs.report_1day --hours 1 --gpus 2 --raw

A simulated day is really recorded (day.py). Then `probe report` is timed on what was left.
``--raw`` also reports from all samples and edges, for the difference. Bars: 1.5 s, 200 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.results import ROOT, machine, save
from probe.store import files, layout

from .day import record

SECONDS, MIB = 1.5, 200.0  # the bars
# The peak of a process counts from before it was its own, but not the one of its memory.
COMMAND = """
import atexit, pathlib, sys
from probe.cli.main import main

def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")),
          file=sys.stderr)

atexit.register(peak)
main(["report", *sys.argv[1:], "--format", "json"])
"""


def timed(run: Path, *more: str) -> tuple[float, float, Any]:
    """(seconds, peak MiB, report) of the command in a process of its own."""
    began = time.monotonic()
    out = subprocess.run(
        [sys.executable, "-c", COMMAND, str(run), *more],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return time.monotonic() - began, int(out.stderr) / 1024, json.loads(out.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0, help="at least 0.1, a segment")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--keep", metavar="DIR", help="leave the run there")
    parser.add_argument("--raw", action="store_true", help="also from all samples and edges")
    options = parser.parse_args()
    if options.hours < 0.1:
        parser.error("--hours is at least 0.1: data is sealed every five minutes")
    print(json.dumps(machine()))
    with contextlib.ExitStack() as open_:
        folder = options.keep or open_.enter_context(tempfile.TemporaryDirectory())
        began = time.monotonic()
        run = record(Path(folder), options.hours, options.gpus)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        print(
            f"recorded {options.hours:g} h of {options.gpus} GPUs in "
            f"{time.monotonic() - began:.0f} s, {size / 2**20:.0f} MiB on disk"
        )
        true_j = files.read_json(run / layout.RUN_FILE)["true_j"]
        seconds, mib, report = min((timed(run) for _ in range(3)), key=lambda timing: timing[0])
        off = report["total"]["energy_j"] / true_j - 1
        resolved = [row for row in report["phases"] if row["status"] == "resolved"]
        print(
            f"report: {seconds:.2f} s, {mib:.0f} MiB; total off by {off:+.1e}; "
            f"{len(resolved)} of {len(report['phases'])} rows resolved"
        )
        result = {
            "hours": options.hours,
            "gpus": options.gpus,
            "disk_mib": round(size / 2**20),
            "seconds": round(seconds, 2),
            "mib": round(mib),
            "total_off": off,
        }
        if options.raw:
            raw_s, raw_mib, raw = timed(run, "--recompute")
            apart = report["total"]["energy_j"] / raw["total"]["energy_j"] - 1
            print(
                f"from all samples and edges: {raw_s:.1f} s, {raw_mib:.0f} MiB; "
                f"totals differ by {apart:+.1e}"
            )
        held = result["held"] = seconds <= SECONDS and mib <= MIB and abs(off) < 1e-4
    save("long_runs/report_1day", result)
    print(f"bar: {SECONDS:g} s and {MIB:g} MiB: {'held' if held else 'MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
