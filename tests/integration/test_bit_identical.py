"""Being watched changes nothing: losses and weights are equal to the last bit.

Both examples, trained bare, under `probe.watch()` and, as a script that knows nothing of
us, under `probe run`. ``PROVE=1`` trains them to their end; else a few steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from . import scripts

STEPS = {"01_digits_cnn.py": 12, "02_stdlib_gpt.py": 5}  # the short ones
PROBE_RUN = (sys.executable, "-m", "probe", "run", "--")


def train(tmp_path: Path, example: str, way: str, *options: str, under: tuple[str, ...] = ()) -> Any:
    """Losses and weights of one training in a process of its own."""
    kept = tmp_path / f"{way}.pt"
    steps = () if os.environ.get("PROVE") else ("--steps", str(STEPS[example]))
    done = subprocess.run(
        [*under, sys.executable, str(scripts.ROOT / "examples" / example), "--weights", str(kept),
         *steps, *options],
        capture_output=True, text=True, env=scripts.environment(tmp_path / way), cwd=tmp_path,
        timeout=280, check=False,
    )
    assert done.returncode == 0, done.stderr
    return torch.load(kept)


def recorded(tmp_path: Path, way: str) -> Any:
    """The report of the one run of this training."""
    out = scripts.probe(tmp_path, "report", "latest", "--format", "json",
                        extra={"PROBE_DIR": str(tmp_path / way)})
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


@pytest.mark.parametrize("example", STEPS)
def test_losses_and_weights_are_equal_to_the_last_bit(example: str, tmp_path: Path) -> None:
    bare = train(tmp_path, example, "bare", "--bare")
    assert bare["losses"]
    assert not (tmp_path / "bare").exists()  # it was bare indeed
    watched = train(tmp_path, example, "watch")
    untouched = train(tmp_path, example, "run", "--bare", under=PROBE_RUN)
    for way, found in (("watch", watched), ("run", untouched)):
        assert found["losses"] == bare["losses"], way
        assert found["weights"].keys() == bare["weights"].keys()
        for name, value in bare["weights"].items():
            assert torch.equal(found["weights"][name], value), f"{way}: {name}"
        report = recorded(tmp_path, way)  # and these were watched indeed
        assert report["run"]["status"] == "finished"
        assert report["run"]["steps"] == len(bare["losses"]), way
        phases = {row["phase"] for row in report["phases"]}
        assert phases >= {"forward", "backward", "optimizer"}, way
