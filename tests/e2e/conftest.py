"""Headless Chromium of the system, nothing is downloaded; a dashboard over real runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.nvml_calibration import calibrated
from tests.fakes.processes import ROOT, await_recorder
from tests.scripts import SCRIPTS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TRAINING = SCRIPTS / "train_for_browser.py"
LIVE_S = 1500.0  # longer than all tests that look at it, on a busy machine, too


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass(frozen=True)
class Shown:
    """A dashboard that runs, and what it shows: ids by what the run is."""

    url: str
    directory: Path
    runs: dict[str, str]

    def run(self, which: str, query: str = "") -> str:
        return f"{self.url}run/{self.runs[which]}{query}"


@pytest.fixture(scope="package")  # its live training ends before the tests of other packages
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A live training on eight GPUs and a finished one, two of each of two kinds, a killed one, a
    job of four ranks, one of modules without a meter, and a run that is broken.
    """
    folder = tmp_path_factory.mktemp("dashboard")
    directory = folder / "runs"
    with contextlib.ExitStack() as open_:
        live = start(folder, "live", LIVE_S, gpus=8)
        open_.callback(end, live)
        finished = [
            start(folder, name, 9.0, gpus=1, speed=speed)
            for name, speed in (("plain", 1.0), ("plain", 1.0), ("faster", 1.6), ("faster", 1.6))
        ]
        finished.append(start(folder, "eight", 9.0, gpus=8))
        finished.append(start_modules(folder))
        killed = start(folder, "killed", LIVE_S, gpus=1)
        crew = start_crew(folder)
        runs = {"live": said(live), "killed": said(killed)}
        names = [said(report) for report in finished]
        assert crew.stdout is not None  # it stays open: every rank has something to say
        runs["crew"] = crew.stdout.readline().strip().rpartition("/")[2]
        runs |= {"eight": names[4], "modules": names[5]}
        runs |= {"plain": names[0], "faster": names[2], "deleted": names[1], "torn": names[3]}
        time.sleep(5.0)
        kill_all(directory / runs["killed"], killed)
        for report in (*finished, crew):
            assert report.wait(timeout=processes.HUNG_S) == 0
        (directory / "broken").mkdir()
        (directory / "broken" / "run.json").write_text('{"schema": 1, "id": ')
        server, url = serve(directory)
        open_.callback(end, server)
        yield Shown(url, directory, runs)


def start(
    folder: Path, name: str, seconds: float, *, gpus: int, speed: float = 1.0
) -> subprocess.Popen[str]:
    """A training on rig GPUs of its own."""
    own = folder / f"{name}-{time.monotonic_ns()}"
    own.mkdir()
    rig = NvmlRig(own, gpus=gpus, power_w=80.0, period_s=0.1)
    for gpu in range(gpus):
        rig.gpu(gpu).gpm = 2
    # Calibrated, or phases would be told apart only after most of a minute.
    env = (
        os.environ
        | rig.env()
        | calibrated(rig, own / "calibration")
        | {"PROBE_DIR": str(folder / "runs"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    )
    return subprocess.Popen(
        [sys.executable, str(TRAINING), str(seconds), name, str(speed)],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )


def start_modules(folder: Path) -> subprocess.Popen[str]:
    """A small transformer whose modules are told apart, on a machine without a meter."""
    env = os.environ | {
        "PROBE_DIR": str(folder / "runs"),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPTS / "train_modules.py"), "4"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )


def start_crew(folder: Path) -> subprocess.Popen[str]:
    """A job of four ranks, one of which is slow, each on a card of its own."""
    own = folder / "crew"
    own.mkdir()
    rig = NvmlRig(own, gpus=4, power_w=80.0, period_s=0.1)
    env = (
        os.environ
        | rig.env()
        | {"PROBE_DIR": str(folder / "runs"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    )
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "4",
            "--standalone",
            str(ROOT / "tests/scripts/train_ranks.py"),
            "--seconds",
            "8",
            "--slow",
            "2",
        ],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def said(training: subprocess.Popen[str]) -> str:
    """Its run's id."""
    assert training.stdout is not None
    with training.stdout:
        return training.stdout.readline().strip()


def serve(directory: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """``probe dashboard`` on any free port, and its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "probe", "dashboard", str(directory), "--port", "0", *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert server.stdout is not None
    with server.stdout:
        line = server.stdout.readline()
    return server, line.split(" at ")[-1].split()[0]


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=processes.HUNG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill_all(run: Path, training: subprocess.Popen[str]) -> None:
    """The training and its recorder at once, so that nobody can say how it ended."""
    os.kill(await_recorder(run), signal.SIGKILL)
    training.kill()
    training.wait()
