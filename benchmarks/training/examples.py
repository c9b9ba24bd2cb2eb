"""Trainings of the examples at laptop size, each in a fresh process."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.results import ROOT

TIMEOUT_S = 900


class Task(NamedTuple):
    """What is trained, how long, and to which quality."""

    kind: str
    example: str
    data: str  # its folder; "": what the example trains on without any
    samples: int
    eval_every: int
    target: str

    def words(self, data: Path | None, scale: float = 1.0) -> list[str]:
        """The example's command line, but for its stack, its seed and where it ends."""
        return [
            *(str(ROOT / "examples" / self.example), "--size", "tiny"),
            *(("--data", str(data / self.data)) if data and self.data else ()),
            *("--samples", str(round(self.samples * scale))),
            *("--eval-every", str(self.eval_every)),
        ]


def train(words: Iterable[str], runs: Path) -> None:
    """One training into a folder of runs; ends the benchmark if it fails."""
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PROBE_DIR": str(runs)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")


def check_data(parser: argparse.ArgumentParser, data: Path | None, tasks: Iterable[Task]) -> None:
    """End with one line if the data of a task are not there."""
    folders = [task.data for task in tasks if task.data]
    if missing := [folder for folder in folders if data is None or not (data / folder).is_dir()]:
        parser.error(f"--data: name the folder that holds {' and '.join(missing)}")
