"""What the benchmarks share: the machine in words, results on disk, bounds of a mean."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results")


def machine() -> dict[str, Any]:
    """Where and with what a figure was measured."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    try:
        import torch

        torch_version = torch.__version__
    except ImportError:
        torch_version = "none"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.release(),
        "python": platform.python_version(),
        "torch": torch_version,
        "commit": commit(),
    }


def keep_heap() -> None:
    """Start again with a heap that is never given back to the system (glibc, mallopt(3)).

    Else a step's page faults, some 1 µs each, depend on what ran before it: they are most of
    what two turns of the same loop differ by.
    """
    kept = {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(1 << 26),
    }
    if kept.items() <= os.environ.items():
        return
    os.environ.update(kept)
    os.execv(sys.executable, [sys.executable, *sys.argv])


def commit() -> str:
    """The commit that is measured; with `-dirty` if a source differs from it."""
    name = _git("rev-parse", "--short", "HEAD").strip()
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return f"{name}-dirty" if name and changed.strip() else name or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def save(name: str, result: dict[str, Any]) -> None:
    """Write benchmarks/results/<name>.json; not from a tree that differs from its commit."""
    about = machine()
    if about["commit"].endswith("-dirty"):
        print(f"results/{name}.json is not written: commit the sources first", file=sys.stderr)
        return
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": about, **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def median_and_bound(values: list[float]) -> tuple[float, float]:
    """(median, its upper 95 % bound by order statistics); a neighbour's burst moves them little."""
    from scipy.stats import binom

    ordered = sorted(values)
    place = int(binom.ppf(0.95, len(ordered), 0.5))  # one-sided
    return statistics.median(ordered), ordered[min(place, len(ordered) - 1)]


def mean_and_bound(values: Sequence[float]) -> tuple[float, float]:
    """Mean and the upper end of its 95 % interval (Student's)."""
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.inf
    wide = float(stdtrit(len(values) - 1, 0.975))
    return mean, mean + wide * statistics.stdev(values) / math.sqrt(len(values))


def recorder_pid(run: Path) -> int:
    """The pid of the run's recorder, once it says that it is there."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = json.loads((run / "run.json").read_text()).get("recorder")
        if told:
            return int(told["pid"])
        time.sleep(0.05)
    sys.exit(f"the recorder did not start: see recorder.log in {run}")


def await_exit(pid: int) -> None:
    """Wait until a process that is not our child is gone, at most 10 s."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return math.nan


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
