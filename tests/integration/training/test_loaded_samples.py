"""Samples of a run that logs none are those that its DataLoader gave to the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import processes
from tests.scripts import SCRIPTS

pytestmark = pytest.mark.xdist_group("loaded samples")  # one fixture of many trainings

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = SCRIPTS / "train_loaders.py"
# Nothing says how large their batches are, or the batches are trained on more than once.
UNKNOWN = {"one by one", "an uneven batch sampler", "cached", "twice"}


USUAL = ("plain", "workers", "accumulated", "evaluated", "loaded ahead", "cached", "logged")


@pytest.fixture(
    scope="module", params=[USUAL, pytest.param((), marks=pytest.mark.full)], ids=["usual", "every"]
)
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("loaders")
    script = SCRIPT.read_text(encoding="utf-8")
    done = processes.run(script, folder, *request.param, extra={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    by_case = dict(json.loads(done.stdout.splitlines()[-1]))
    assert len(by_case) == (len(request.param) or 18)
    return by_case


def test_what_a_training_stepped_on_is_counted(results: dict[str, Any]) -> None:
    counted = {
        name: (trained, values["samples"]["sum"])
        for name, (trained, values) in results.items()
        if name not in UNKNOWN
    }
    assert all(trained == seen for trained, seen in counted.values()), counted


def test_what_is_not_known_is_not_counted(results: dict[str, Any]) -> None:
    unknown = {name for name, (_, values) in results.items() if "samples" not in values}
    assert unknown == UNKNOWN & results.keys()
    assert all(trained > 0 for trained, _ in results.values())


def test_no_other_name_is_shown(results: dict[str, Any]) -> None:
    assert all(set(values) <= {"samples"} for _, values in results.values())


def test_runs_of_different_batches_are_compared_by_sample(tmp_path: Path) -> None:
    """A larger batch does more in a step: that is no loss."""
    script = """
        import sys, time; sys.path.insert(0, sys.argv[1]); import probe
        from train_loaders import DATA, Training, DataLoader
        def take_longer(_model, inputs): time.sleep(0.001 + 0.0001 * len(inputs[0]))
        for name in ("warm-up of 5", "of 5", "of 50"):
            t, size = Training(), int(name.split()[-1])
            t.model.register_forward_pre_hook(take_longer)
            with probe.watch(t.model, t.optimizer, name=name):
                for _ in range(20):
                    for x, y in DataLoader(DATA, batch_size=size):
                        t.backward(x, y); t.step()
    """
    done = processes.run(script, tmp_path, str(SCRIPT.parent), extra={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    out = processes.probe(tmp_path, "compare", "of 5", "of 50", "--format", "json")
    (comparison,) = json.loads(out.stdout)["comparisons"]
    assert json.loads(out.stdout)["unit"] == "samples"
    # A step takes 4 times as long with the larger batch, a sample half as long.
    (forward,) = (row for row in comparison["phases"] if row["phase"] == "forward")
    assert forward["gain_s"] > 0
