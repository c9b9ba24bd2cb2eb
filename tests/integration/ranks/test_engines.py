"""Engines that divide a model over ranks: steps are counted as often as they are made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.scripts import SCRIPTS

FULL = pytest.mark.full
ALL_BLOCK = "collectives that block; none overlaps computing"
WAITED_FOR = "collectives that are waited for"
BLOCKS = ("fsdp", "zero1", "zero2")  # on gloo; on a GPU they overlap by streams
BEGUN_BY_NAME = ("asynchronous", "zero3")  # by functions of torch.distributed


@pytest.mark.parametrize(
    "engine",
    [
        "fsdp",
        "pipeline",
        pytest.param("asynchronous", marks=FULL),
        pytest.param("tensor", marks=FULL),
        pytest.param("zero3", marks=FULL),
        pytest.param("zero2", marks=FULL),
        *(["zero1"] if os.environ.get("PROVE") else []),
    ],
)
def test_engines_step_as_often_as_they_step(engine: str, tmp_path: Path) -> None:
    if engine.startswith("zero"):
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.scripts.forked_ranks",
            "2",
            str(SCRIPTS / "train_parallel_engines.py"),
            engine,
            "12",
        ],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs", {"DS_ACCELERATOR": "cpu"}),
        cwd=tmp_path,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert report["run"]["ranks"] == 2
    assert [row["steps"] for row in report["ranks"]] == [12, 12]
    rows = {row["phase"]: row for row in report["phases"] if row["device"] == "rank0"}
    assert rows["optimizer"]["count"] >= 12 and rows["backward"]["count"] >= 12
    assert all(row["blocking_s"] > 0 for row in report["communication"])
    assert len(report["communication"]) == 2
    # Whether anything overlapped, beside what torch's functions returned in the training.
    seen = [json.loads(line) for line in re.findall(r"SEEN (\{[^{}]*\})", done.stdout)]
    assert len(seen) == 2
    for row in report["communication"]:
        assert row["busy_s"] is None
        assert row["method"] == (ALL_BLOCK if engine in BLOCKS else WAITED_FOR)
    assert all((each["beside"] > 0) == (engine in BEGUN_BY_NAME) for each in seen), seen
