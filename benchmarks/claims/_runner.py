"""How promises are shown: figures, and the ways to get them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from common import RESULTS, ROOT

# What records a run: the training's side, the recorder, and the report that tells of it.
WATCHING = ("probe/session", "probe/launcher", "probe/recorder", "probe/report")


@dataclass(frozen=True)
class Figure:
    """One printed line: what was looked at, what was found, and does it hold."""

    what: str
    found: str
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
    """The exit status of one of our neighbours: 0 if its own bars hold."""
    script = str(ROOT / "benchmarks" / name)
    return call([sys.executable, script, *options], OMP_NUM_THREADS="2").returncode


def result(name: str) -> Any:
    """What a benchmark has just saved."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def tests(*paths: str) -> Iterator[Figure]:
    """A line for each test function: how many of its cases passed. A skipped one shows nothing."""
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        call(
            [sys.executable, "-m", "pytest", "-q", "--timeout=7200", f"--junitxml={xml}", *paths],
            PROVE="1",
        )
        cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    names = dict.fromkeys(case.get("name", "").partition("[")[0] for case in cases)
    for name in names:
        mine = [case for case in cases if case.get("name", "").partition("[")[0] == name]
        skipped = [case for case in mine if case.find("skipped") is not None]
        bad = [c for c in mine if c.find("failure") is not None or c.find("error") is not None]
        found = f"{len(mine) - len(skipped) - len(bad)} of {len(mine)}"
        if skipped:
            found += f", skipped: {skipped[0].find('skipped').get('message')}"  # type: ignore[union-attr]
        yield Figure(name.removeprefix("test_").replace("_", " "), found, not bad)
    shown = len([c for c in cases if not len(c)])
    yield Figure("tests that were really run", str(shown), shown > 0)
