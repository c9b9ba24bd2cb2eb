"""Samples of a run that logs none are those that its DataLoader gave to the training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.scripts import SCRIPTS

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = SCRIPTS / "train_loaders.py"
# Nothing says how large their batches are, or the batches are trained on more than once.
UNKNOWN = {"one by one", "an uneven batch sampler", "cached", "twice"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("loaders")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env=processes.environment(folder / "runs", {"OMP_NUM_THREADS": "1"}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_what_a_training_stepped_on_is_counted(results: dict[str, Any]) -> None:
    counted = {
        name: (trained, values["samples"]["sum"])
        for name, (trained, values) in results.items()
        if name not in UNKNOWN
    }
    assert len(counted) == 14
    assert all(trained == seen for trained, seen in counted.values()), counted


def test_what_is_not_known_is_not_counted(results: dict[str, Any]) -> None:
    assert {name for name, (_, values) in results.items() if "samples" not in values} == UNKNOWN
    assert all(trained > 0 for trained, _ in results.values())


def test_no_other_name_is_shown(results: dict[str, Any]) -> None:
    assert all(set(values) <= {"samples"} for _, values in results.values())


def test_runs_of_different_batches_are_compared_by_sample(tmp_path: Path) -> None:
    """A larger batch does more in a step: that is no loss."""
    for size in (5, 50):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); import probe\n"
            "from train_loaders import DATA, Training, DataLoader\n"
            "size, t = int(sys.argv[2]), Training()\n"
            "with probe.watch(t.model, t.optimizer, name=f'of {size}'):\n"
            "    for _ in range(40):\n"
            "        for x, y in DataLoader(DATA, batch_size=size):\n"
            "            t.backward(x, y); t.step()\n"
        )
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-c", script, str(SCRIPT.parent), str(size)],
                env=processes.environment(tmp_path / "runs", {"OMP_NUM_THREADS": "1"}),
                timeout=120,
                check=True,
            )
    out = processes.probe(tmp_path, "compare", "of 5", "of 50", "--format", "json")
    (comparison,) = json.loads(out.stdout)["comparisons"]
    assert json.loads(out.stdout)["unit"] == "samples"
    # By step the larger batch costs more there, by sample a tenth of what a call costs anyway.
    (forward,) = (row for row in comparison["phases"] if row["phase"] == "forward")
    assert forward["gain_s"] > 0
