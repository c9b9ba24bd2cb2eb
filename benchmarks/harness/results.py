"""Results on disk, and the machine and commit that they are from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def machine() -> dict[str, Any]:
    """Where and with what a figure was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": next(models, "unknown"),
        "cores": os.cpu_count(),
        "system": platform.release(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "commit": commit(),
    }


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
    write(name, {"machine": about, **result})


def write(name: str, result: dict[str, Any]) -> None:
    """Write benchmarks/results/<name>.json, whatever the tree is."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def read(name: str) -> Any:
    """The content of benchmarks/results/<name>.json."""
    return json.loads((RESULTS / f"{name}.json").read_text())
