"""Watching changes nothing: losses and weights of both examples are equal to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.processes import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

STEPS = {"01_digits_cnn.py": 60, "02_stdlib_gpt.py": 60}
FEW = {"01_digits_cnn.py": 8, "02_stdlib_gpt.py": 12}
COUNTS = STEPS if os.environ.get("PROVE") else FEW


def train(tmp_path: Path, example: str, how: str) -> tuple[list[float], dict[str, object]]:
    weights = tmp_path / f"{how}.pt"
    command = [
        sys.executable,
        str(ROOT / "examples" / example),
        "--steps",
        str(COUNTS[example]),
        "--weights",
        str(weights),
    ]
    if how != "watch":
        command.append("--bare")
    if how == "probe run":
        command = [sys.executable, "-m", "probe", "run", "--", *command]
    done = subprocess.run(
        command,
        env=processes.environment(tmp_path / "runs"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if how != "bare":
        assert "backward" in done.stdout + done.stderr  # it was really watched
    saved = torch.load(weights)
    return saved["losses"], saved["weights"]


EXAMPLES = ["01_digits_cnn.py", pytest.param("02_stdlib_gpt.py", marks=pytest.mark.full)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_losses_and_weights_are_equal_to_the_last_bit(example: str, tmp_path: Path) -> None:
    losses, weights = train(tmp_path, example, "bare")
    assert len(losses) == COUNTS[example]
    for how in ("watch", "probe run"):
        other_losses, other_weights = train(tmp_path, example, how)
        assert other_losses == losses, how
        assert other_weights.keys() == weights.keys()
        for name, value in weights.items():
            assert torch.equal(value, other_weights[name]), (how, name)
