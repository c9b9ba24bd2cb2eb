"""Loops and savers of frameworks: counts, phases and seconds are the true ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes import processes  # noqa: E402
from tests.fakes.packages import need  # noqa: E402
from tests.scripts import SCRIPTS  # noqa: E402


@pytest.mark.full
@pytest.mark.parametrize(
    "stack", ["deepspeed", "hf", "lightning", "lightning_inner", "lightning_auto", "keras", "sb3"]
)
def test_framework(tmp_path: Path, stack: str) -> None:
    need({"hf": "transformers", "sb3": "stable_baselines3"}.get(stack, stack.split("_")[0]))
    run("tests.scripts.train_in_frameworks", stack, tmp_path)


@pytest.mark.full
@pytest.mark.alone  # its seconds are to be within 10 % of the loop's own
@pytest.mark.parametrize("loop", ["accelerate", "transformers", "lightning", "fabric"])
def test_loop_beside_its_own_count(tmp_path: Path, loop: str) -> None:
    need({"fabric": "lightning"}.get(loop, loop))
    run("tests.scripts.loops_of_frameworks", loop, tmp_path)


# The two whose imports take least time in every run of the tests.
@pytest.mark.parametrize(
    "saver",
    ["torch_save", "distributed_async"]
    + [
        pytest.param(saver, marks=pytest.mark.full)
        for saver in (
            "safetensors",
            "distributed",
            "distributed_collective",
            "distributed_async_by_name",
            "distributed_async_writer",
            "distributed_async_staging",
            "distributed_async_process",
            "transformers",
            "trainer",
            "accelerate",
            "lightning",
            "pytorch_lightning",
            "deepspeed",
            "keras",
            "fabric",
            "sentence_transformers",
            "skorch",
            "stable_baselines3",
        )
    ],
)
def test_a_save_is_one_visit_of_checkpoint(tmp_path: Path, saver: str) -> None:
    package = saver.partition("_")[0]
    package = {
        "distributed": "torch",
        "trainer": "transformers",
        "pytorch": saver,
        "fabric": "lightning",
        "sentence": saver,
        "stable": saver,
    }.get(package, package)
    need(package)
    run("tests.scripts.save_in_frameworks", saver, tmp_path)


def run(program: str, what: str, folder: Path) -> None:
    """Run a program of tests/scripts in a process of its own: frameworks change global state."""
    done = subprocess.run(
        [sys.executable, "-m", program, what, str(folder)],
        cwd=SCRIPTS.parents[1],
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
