"""Bubble and transfer of pipelines whose stages and arrivals take known times.

With p balanced stages and m micro-batches the bubble is (p - 1) / (m + p - 1) of a step in which
data moves in no time, of GPipe and of 1F1B. A rank that waits for one arrival after the other in
GPipe waits 2 (m + p - 2) transfer times more: m at the last stage, one for each stage between, both
ways.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed.pipelining", reason="no pipelines in this torch")

from tests.fakes import processes
from tests.scripts import SCRIPTS

MICROS, STEPS, FORWARD_S, BACKWARD_S, TRANSFER_S = 4, 12, 0.03, 0.06, 0.03

pytestmark = pytest.mark.paced


@dataclass(frozen=True)
class Pipeline:
    """What a run took by its own clock, and what the report says of its ranks, in s per step."""

    step_s: float
    waiting_s: list[float]
    bubble_s: list[float]
    transfer_s: list[float]
    text: str


def pipeline(folder: Path, schedule: str, ranks: int, transfer_s: float) -> Pipeline:
    folder.mkdir()
    case = {
        "schedule": schedule,
        "micros": MICROS,
        "steps": STEPS,
        "forward_s": FORWARD_S,
        "backward_s": BACKWARD_S,
        "transfer_s": transfer_s,
    }
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone"]
    done = subprocess.run(
        [sys.executable, *launch, str(SCRIPTS / "train_pipeline.py"), json.dumps(case)],
        capture_output=True,
        text=True,
        env=processes.environment(folder / "runs"),
        cwd=folder,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(processes.probe(folder, "report", "latest", "--format", "json").stdout)
    assert report["balance"] is None  # stages do not meet all at once
    rows = report["pipeline"]["ranks"]
    assert [row["rank"] for row in rows] == list(range(ranks))
    return Pipeline(
        float(done.stdout.split("STEP ")[1].split()[0]),
        *([row[name] for row in rows] for name in ("waiting_s", "bubble_s", "transfer_s")),
        text=processes.probe(folder, "report", "latest").stdout,
    )


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_bubble_and_transfer_are_told_apart(schedule: str, ranks: int, tmp_path: Path) -> None:
    fast = pipeline(tmp_path / "fast", schedule, ranks, 0.0)
    bubble_s = fast.step_s * (ranks - 1) / (MICROS + ranks - 1)
    # A rank that a busy machine holds up is waited for: by as much as the step is too long.
    held_up_s = max(0.0, fast.step_s - (MICROS + ranks - 1) * (FORWARD_S + BACKWARD_S))
    assert fast.bubble_s == pytest.approx([bubble_s] * ranks, rel=0.1, abs=held_up_s)
    assert max(fast.transfer_s) < 0.1 * fast.step_s
    assert "waiting for neighbours in the pipeline" in fast.text

    slow = pipeline(tmp_path / "slow", schedule, ranks, TRANSFER_S)
    computed_s = slow.step_s - sum(slow.waiting_s) / ranks  # whatever else the machine had to do
    assert slow.bubble_s == pytest.approx([computed_s * (ranks - 1) / MICROS] * ranks, rel=0.1)
    assert slow.bubble_s == pytest.approx(fast.bubble_s, rel=0.2)
    grown_s = [a - b for a, b in zip(slow.transfer_s, fast.transfer_s, strict=True)]
    assert min(grown_s) > 4 * TRANSFER_S
    if schedule == "gpipe":
        arrivals = 2 * (MICROS + ranks - 2)
        assert grown_s == pytest.approx([arrivals * TRANSFER_S] * ranks, rel=0.1)
