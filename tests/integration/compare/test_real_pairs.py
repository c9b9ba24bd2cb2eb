"""Pairs of real trainings: nearly all of the gain is in a named phase and a named class.

A seeded part of the pairs; ``PROVE=1`` makes all five, with `watch()` alone and with
``classify=True``, and more runs of each side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes import processes
from tests.fakes.selection import rows_one_in
from tests.scripts import SCRIPTS

PROVE = bool(os.environ.get("PROVE"))
KINDS = ("cnn", "gpt", "lstm", "two_models", "ranks")
PAIRS = (
    [(kind, classify) for kind in KINDS for classify in (False, True)]
    if PROVE
    else rows_one_in(2, [("cnn", True), ("ranks", False)])
)
RUNS = 4 if PROVE else 3
RANKS = 4 if PROVE else 2
NAMED = 0.95
UNNAMED_PHASES = ("other", "unattributed", "unresolved")
UNNAMED_CLASSES = ("unclassified", "unidentified")

pytestmark = pytest.mark.alone


def train(folder: Path, kind: str, classify: bool) -> None:
    command = [sys.executable]
    if kind == "ranks":
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    command += [str(SCRIPTS / "train_pair.py"), kind, str(RUNS), str(int(classify))]
    # The rates of this machine are measured by the first run that needs them.
    given = {"PROBE_CALIBRATION": str(folder / "ridge"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        env=processes.environment(folder / "runs", given),
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def share_of_named(amounts: list[tuple[str, float]], unnamed: tuple[str, ...]) -> float:
    whole = sum(abs(amount) for _, amount in amounts)
    return sum(abs(amount) for name, amount in amounts if name not in unnamed) / whole


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("kind", "classify"), PAIRS)
def test_the_gain_is_in_named_phases_and_classes(kind: str, classify: bool, tmp_path: Path) -> None:
    train(tmp_path, kind, classify)
    out = processes.probe(tmp_path, "compare", f"{kind}-base", f"{kind}-other", "--format", "json")
    assert out.returncode == 0, out.stderr
    report: dict[str, Any] = json.loads(out.stdout)
    (comparison,) = report["comparisons"]
    assert comparison["comparable"] and comparison["paired"] and comparison["runs"] == RUNS
    phases = [(row["phase"], row["gain_s"]) for row in comparison["phases"]]
    cells = [(cell["class"], cell["time_s"]) for cell in comparison["cells"]]
    named = share_of_named(phases, UNNAMED_PHASES), share_of_named(cells, UNNAMED_CLASSES)
    print(f"{kind}, classify={classify}: {100 * named[0]:.1f} % of the gain is in a named phase,")
    print(f"  {100 * named[1]:.1f} % in a named class")
    assert min(named) >= NAMED, (phases, cells)
    assert sum(amount for _, amount in cells) == pytest.approx(
        comparison["time_s"]["gain"], rel=1e-9
    )
    assert sum(amount for _, amount in phases) == pytest.approx(
        comparison["per_sample"]["gain_s"], rel=1e-9
    )
    by_class = report["classified"]
    if classify:
        for phase in ("forward", "backward", "recompute", "optimizer"):
            assert by_class[phase] == "counted", (phase, report["warnings"])
        assert report["memory_separated"] and report["classes"]["optimizer"]["memory-bound"] == 1.0
    else:
        assert set(by_class.values()) == {"by phase"} and not report["memory_separated"]
        assert "memory-bound" not in {name for name, _ in cells}
    # What was made cheaper is what saves most: all of it is in these three.
    saved = dict(phases)
    assert max(saved, key=lambda phase: saved[phase]) in ("data", "recompute", "optimizer")
    text = processes.probe(tmp_path, "compare", f"{kind}-base", f"{kind}-other").stdout
    said = "memory-bound work is counted for" if classify else "not separated: `classify=True`"
    assert said in text
