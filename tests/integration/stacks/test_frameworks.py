"""DeepSpeed, transformers and Lightning train as they do unwatched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.scripts import SCRIPTS  # noqa: E402


@pytest.mark.full
@pytest.mark.parametrize(
    "stack", ["deepspeed", "hf", "lightning", "lightning_inner", "lightning_auto", "keras", "sb3"]
)
def test_framework(tmp_path: Path, stack: str) -> None:
    module = {"hf": "transformers", "sb3": "stable_baselines3"}.get(stack, stack.split("_")[0])
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")
    script = SCRIPTS / "train_in_frameworks.py"
    done = subprocess.run(
        [sys.executable, "-m", "tests.scripts.train_in_frameworks", stack, str(tmp_path)],
        cwd=script.parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
