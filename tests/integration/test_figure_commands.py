"""Every command that a page names beside a figure, at its smallest size: it prints figures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_docs import MARKDOWN, text_of
from tests.unit.test_recorded_power import square_wave

ROOT = Path(__file__).resolve().parents[2]

# Arguments of a small size, and what is printed then. A bar may be missed there.
SMALL: dict[str, tuple[tuple[str, ...], str]] = {
    "cost.entries": (("--turns", "2", "--steps", "50"), r"lightning: \d"),
    "cost.hook_cpu_cold": (("--blocks", "1"), r"a step \d+ µs"),
    "cost.hook_cpu_warm": (("--ranks", "1", "--seconds", "2"), r"µs CPU per step"),
    "cost.overhead": (("--blocks", "2", "--sizes", "2 ms"), r"Zeus.* \d"),
    "cost.recorder": (("--seconds", "10"), r"cpu_share +0\.\d"),
    "cost.replacement": ((), r"busy, aside +\d"),
    "cost.root_search": ((), r"its first step +\d"),
    "cost.scrape": (("--scrapes", "3"), r"scraped: .\d"),
    "cost.startup": ((), r"watch_enter_ms +\d"),
    "dashboard.many_runs": (("--runs", "50"), r"page: 50 runs in \d"),
    "energy.attribution": (("--traces", "2", "--scenes", "two lags"), r"two lags +60 ms +\d"),
    "energy.demo": (("--runs", "1", "--seconds", "15"), r'"ok": (true|false)'),
    "energy.end_to_end": (
        ("--runs", "1", "--seconds", "10", "--worlds", "as assumed"),
        r"resolved intervals hold",
    ),
    "energy.gains": (("--comparisons", "2"), r"equal work +3 +groups +\d"),
    "energy.meters": (("--runs", "1"), r"RAPL +\d"),
    "energy.read_schedules": (("--short", "3", "--long", "1"), r"refused where readable: \d"),
    "energy.recorded": (("WAVE", "--runs", "1", "--seconds", "6"), r"5050_wave"),
    "gpu.two_meters": ((), r"total: counter \d+ J"),
    "long_runs.full_disk": (
        ("--runs", "1", "--seconds", "12", "--spell", "2"),
        r"[01] of 1 runs: at least",
    ),
    "long_runs.report_1day": (("--hours", "0.2", "--gpus", "1"), r"report: \d"),
    "long_runs.store_fuzz": (("--rounds", "2"), r"same +\d|refused +\d|warned +\d"),
    "long_runs.thirty_days": (
        ("--days", "1", "--ranks", "1", "--steps-per-s", "0.01"),
        r"about \d",
    ),
    "long_runs.virtual_day": (("--hours", "0.2"), r"growth_mib +\d"),
    "loops": (("plain", "--way", "watch()"), r"right: 1 of 1"),
    "training.paper": (
        ("--data", "TEXTS", "--tables", "II", "--seeds", "1", "--scale", "0.1"),
        r"memory: activations +\d",
    ),
    "training.recommended": (
        ("--data", "TEXTS", "--tasks", "gpt2", "--seeds", "1", "--scale", "0.1"),
        r"gpt2: muon.*to perplexity",
    ),
    "training.search": (("--repeats", "1", "--budget", "40"), r"repeat +default +random"),
}
# What these do is measured elsewhere: one installs from the internet, and a card's stages run on
# a stand-in in test_gpu_stages.py.
ELSEWHERE = {"cost.install_size", "gpu", "prove"}


def named() -> set[str]:
    """Modules of benchmarks/ that the pages or the Makefile start, as `-m` or as a path."""
    text = text_of(MARKDOWN) + (ROOT / "Makefile").read_text(encoding="utf-8")
    modules = set(re.findall(r"-m benchmarks\.([\w.]*\w)", text))
    paths = re.findall(r"benchmarks/([\w/]+)\.py", text)
    return modules | {path.replace("/", ".") for path in paths}


def texts(folder: Path) -> Path:
    """A folder with plain text where WikiText-2 would be."""
    place = folder / "data" / "wikitext-2"
    place.mkdir(parents=True)
    for name in ("valid", "test"):
        (place / f"{name}.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400)
    return place.parent


def test_each_has_a_small_size_here() -> None:
    assert named() - ELSEWHERE == SMALL.keys()


@pytest.mark.full
@pytest.mark.parametrize("module", SMALL)
def test_it_runs_and_prints_its_figures(module: str, tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name == "benchmarks":  # a copy: results are written beside the sources
            shutil.copytree(entry, tmp_path / entry.name)
        elif not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    arguments, shown = SMALL[module]
    given = {}
    if "WAVE" in arguments:
        given["WAVE"] = str(square_wave(tmp_path))
    if "TEXTS" in arguments:
        given["TEXTS"] = str(texts(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}"]
        + [given.get(word, word) for word in arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert re.search(shown, done.stdout), done.stdout + done.stderr
