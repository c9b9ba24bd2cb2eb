"""A real ablation: real trainings under the NVML rig, killed in the middle, gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from probe.cli.main import main
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import ROOT
from tests.scripts import SCRIPTS

SCRIPT = SCRIPTS / "train_tiny_gpt.py"


def command(folder: Path, *more: str, samples: int = 128) -> list[str]:
    return [
        sys.executable,
        "-m",
        "probe",
        "ablate",
        "--dir",
        str(folder / "ablation"),
        *more,
        "--",
        sys.executable,
        str(SCRIPT),
        "--stack",
        "{stack}",
        "--seed",
        "{seed}",
        "--samples",
        str(samples),
    ]


def environment(folder: Path) -> dict[str, str]:
    rig = NvmlRig(folder, gpus=1, power_w=90.0, period_s=0.1, jitter_s=0.0002)
    rig.gpu(0).gpm = 0  # no activity of units: classes come from counted operations
    return {**os.environ, **rig.env(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def done(folder: Path) -> list[dict[str, Any]]:
    try:
        text = (folder / "ablation" / "trials.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "blocks", [1, pytest.param(2, marks=[pytest.mark.full, pytest.mark.alone])]
)
def test_an_ablation_that_is_killed_goes_on(
    blocks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = 3 * blocks  # the base, the base again, and the technique
    env = environment(tmp_path)
    words = command(tmp_path, "--techniques", "precision", "--blocks", str(blocks), "--json")
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert processes.wait_until(lambda: len(done(tmp_path)) >= 2)
        time.sleep(3.0)  # into the third one
        first.send_signal(signal.SIGKILL)
    before = done(tmp_path)
    assert len(before) == 2
    second = subprocess.run(
        words, env=env, capture_output=True, text=True, check=False, timeout=processes.HUNG_S
    )
    assert second.returncode == 0, second.stderr
    assert f"2 of {trials} trials were done before" in second.stderr
    assert f"[3/{trials}]" in second.stderr
    assert done(tmp_path)[:2] == before and len(done(tmp_path)) == trials
    parsed = json.loads(second.stdout)
    assert (parsed["trials"], parsed["missing"], parsed["blocks"]) == (trials, 0, blocks)
    assert parsed["no_op"]["energy_j"]["provenance"] == "measured"
    (step,) = parsed["steps"]
    cells = step["step"]["cells"]
    assert sum(c["time_s"] for c in cells) == pytest.approx(step["step"]["time_s"]["gain"])
    assert sum(c["energy_j"] or 0.0 for c in cells) == pytest.approx(
        step["step"]["energy_j"]["gain"], rel=1e-9
    )
    # The trainer counted what waits for memory, so the classes are those of the paper.
    assert {"memory-bound", "gradient-heavy"} <= {c["class"] for c in cells}
    # Once more: nothing is trained, the table is the same; without any words, too.
    other = command(tmp_path, "--techniques", "schedule", "--blocks", str(blocks))
    short = ["ablate", "--dir", str(tmp_path / "ablation")]
    said = []
    for again, code in ((words[3:], 0), (short, 0), (other[3:], 1)):
        with pytest.raises(SystemExit) as ended:
            main(again)
        assert ended.value.code == code
        said.append(capsys.readouterr())
    assert json.loads(said[0].out) == parsed and "[" not in said[0].err
    assert "+ precision" in said[1].out and "holds another ablation" in said[2].err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--techniques", "precision", "--", "true"], "must say where the stack goes"),
        (["--techniques", "precision", "--", "true", "{stack}"], "must say where the seed goes"),
        (["--techniques", "nonsense", "--", "true", "{stack}", "{seed}"], "no technique is called"),
        (["--", "true", "{stack}", "{seed}"], "name the techniques"),
        (["--techniques", "precision", "--", "false", "{stack}", "{seed}"], "ended with 1: see"),
        (
            ["--techniques", "precision", "--", "true", "{stack}", "{seed}"],
            "0 finished runs, not one",
        ),
        (["--techniques", "precision", "--", "nosuchprogram", "{stack}", "{seed}"], "cannot run"),
        ([], "there is no ablation in"),
    ],
)
def test_one_line_for_what_cannot_be_run(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ablate", "--dir", str(tmp_path / "a"), *words])
    stderr = capsys.readouterr().err
    assert ended.value.code == 1 and said in stderr
    assert stderr.strip().splitlines()[-1].startswith("probe: ") and "Traceback" not in stderr
