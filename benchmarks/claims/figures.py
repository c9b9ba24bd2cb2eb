"""How promises are shown: figures, and the ways to get them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.harness.results import ROOT

# What records a run: the training's side, the recorder, and the report that tells of it.
WATCHING = ("probe/session", "probe/launcher", "probe/recorder", "probe/report")


@dataclass(frozen=True)
class Figure:
    """One printed line: what was looked at, its value with its unit, and whether it holds."""

    what: str
    value: str
    ok: bool


@dataclass(frozen=True)
class Item:
    """One promise, how it is shown, and the files and folders that the figures depend on.

    What ``places`` import belongs to them (sources.py); a folder stands for all that it holds.
    """

    number: int
    promise: str
    show: Callable[[], Iterator[Figure]]
    places: tuple[str, ...]


def call(command: list[str], where: Path = ROOT, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run to the end; the tail of what a failed command said goes to stderr."""
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, check=False, env=os.environ | extra
    )
    if done.returncode:
        tail = (done.stdout + done.stderr).splitlines()[-30:]
        print(*(f"    | {line}" for line in tail), sep="\n", file=sys.stderr)
    return done


def benchmark(name: str, *options: str) -> int:
    """The exit status of benchmarks.<name>: 0 if its own bars hold."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    return call(command, OMP_NUM_THREADS="2").returncode


def tests(*paths: str) -> Iterator[Figure]:
    """A line for each test function: how many of its cases passed. A skipped one shows nothing."""
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        call(
            [sys.executable, "-m", "pytest", "-q", "--timeout=7200", f"--junitxml={xml}", *paths],
            PROVE="1",
        )
        cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    by_function: dict[str, list[ElementTree.Element]] = {}
    for case in cases:
        by_function.setdefault(case.get("name", "").partition("[")[0], []).append(case)
    for name, its_cases in by_function.items():
        skipped = [skip for case in its_cases if (skip := case.find("skipped")) is not None]
        bad = [c for c in its_cases if c.find("failure") is not None or c.find("error") is not None]
        text = f"{len(its_cases) - len(skipped) - len(bad)} of {len(its_cases)}"
        if skipped:
            text += f", skipped: {skipped[0].get('message')}"
        yield Figure(name.removeprefix("test_").replace("_", " "), text, not bad)
    passed = len([case for case in cases if not len(case)])
    yield Figure("tests that were really run", str(passed), passed > 0)
