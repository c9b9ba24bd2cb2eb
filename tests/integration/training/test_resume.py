"""kill -9 at a random step, start again: the same losses, data, k and loss scale."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.scripts import SCRIPTS

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers.training import snapshot  # noqa: E402

SCRIPT = SCRIPTS / "train_resumable.py"
KILLS = 20 if os.environ.get("PROVE") else 1


def start(snapshots: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PROBE_DIR": str(snapshots.parent / "runs"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SCRIPT.parents[2]),
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(snapshots), str(log)], env=environment
    )


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder / "snapshots", folder / "log").wait(120) == 0
    found = lines(folder / "log")
    assert found[-1] == "done" and len(found) > 100
    assert len({line.split()[1] for line in found[:-1]}) > 1, "k never changed"
    return found


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_training_goes_on_as_if_nothing_had_been(number, whole, tmp_path):
    at = random.Random(number).randrange(5, len(whole) - 5)
    snapshots, log = tmp_path / "snapshots", tmp_path / "log"
    child = start(snapshots, log)
    deadline = time.monotonic() + 120
    while len(lines(log)) < at and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = lines(log)
    assert before and before[-1] != "done"
    assert start(snapshots, log).wait(120) == 0
    after = lines(log)[len(before) :]
    complete = before if before[-1] in whole else before[:-1]  # a line may be torn
    assert complete == whole[: len(complete)]
    first = int(after[0].split()[0])
    assert first <= int(complete[-1].split()[0]) and first % 4 == 0
    begin = next(i for i, line in enumerate(whole) if int(line.split()[0]) == first)
    assert after == whole[begin:]


def test_a_snapshot_that_was_not_finished_is_not_seen(tmp_path):
    snapshot.save(tmp_path, 3, {"step": 3}, lambda folder: None)
    (tmp_path / ".step-000000004.partial").mkdir()
    newest = snapshot.latest(tmp_path)
    assert newest is not None and snapshot.load(newest) == {"step": 3}


def test_only_the_newest_snapshots_are_kept(tmp_path):
    for step in range(5):
        snapshot.save(tmp_path, step, {"step": step}, lambda folder: None)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "step-000000003",
        "step-000000004",
    ]
