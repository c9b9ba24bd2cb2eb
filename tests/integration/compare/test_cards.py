"""Real cards: real trainings under the NVML rig, killed in the middle, gone on with."""

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

# Trains nothing; refuses one technique as a trainer does, and another one from the second seed on.
PRETENDING = """
import sys, time
import probe
from probe.errors import UsageError
stack, seed = sys.argv[1], int(sys.argv[2])
if "zero" in stack:
    raise UsageError("zero needs DeepSpeed: --api-key=Zk93xQv7LmT2pRw8")
if "sam" in stack and seed:
    sys.exit("the loss is not finite")
with probe.watch(name=stack, data="none", config={"seed": seed}) as run:
    for _ in range(4):
        with run.phase("forward"):
            time.sleep(0.02)
        run.log(samples=8)
    run.log(loss=1.0)
"""


def command(folder: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "probe", "card", *more, "--dir", str(folder / "cards"), "--"),
        *(sys.executable, str(SCRIPTS / "train_tiny_gpt.py"), "--stack", "{stack}"),
        *("--seed", "{seed}", "--samples", "64", "--target", "loss<=9"),
    ]


def done(folder: Path) -> list[dict[str, Any]]:
    try:
        text = (folder / "cards" / "trials.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def ended(*words: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(["card", *words])
    return int(leaving.value.code or 0)


@pytest.mark.full
@pytest.mark.parametrize("seeds", [2, 3])
def test_cards_that_are_killed_go_on(
    seeds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=90.0, period_s=0.1, jitter_s=0.0002)
    rig.gpu(0).gpm = 0
    env = {**os.environ, **rig.env(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = command(tmp_path, "clipping", "--seeds", str(seeds), "--json")
    trials = 2 * seeds
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        end = time.monotonic() + processes.HUNG_S
        began = tmp_path / "cards" / "trials"
        while len(done(tmp_path)) < 2 or len([*began.iterdir()]) < 3:  # into the third one
            assert time.monotonic() < end and first.poll() is None
            time.sleep(0.1)
        first.send_signal(signal.SIGKILL)
    before = done(tmp_path)
    assert len(before) == 2 and not (tmp_path / "cards" / "cards").exists()
    second = subprocess.run(
        words, env=env, capture_output=True, text=True, check=False, timeout=processes.HUNG_S
    )
    assert second.returncode == 0, second.stderr
    assert f"2 of {trials} trials were done before" in second.stderr
    assert done(tmp_path)[:2] == before and len(done(tmp_path)) == trials
    result = json.loads(second.stdout)
    (card,) = result["cards"]
    assert (card["technique"], card["seeds"], result["target"]) == ("clipping", seeds, "loss<=9")
    assert {row["quantity"] for row in card["measured"]} == {"time", "energy", "memory", "quality"}
    assert card["to_target"]["energy_j"]["provenance"] == "measured"
    assert card["equal_work"]["energy_j"]["provenance"] == "measured"
    pages = tmp_path / "cards" / "cards"
    text = (pages / "clipping.md").read_text(encoding="utf-8")
    for part in (
        "Gradients of a norm above τ are scaled down",
        "- Source: the paper, (12); ",
        f"Seeds, each without and with it: {seeds} of {seeds}",
        "- Predicted: ",
        "## To the target, loss&#60;=9",
        "| final quality (loss) |",
        "Progress × cost",
        "## At equal work",
        "## By phase",
        "| backward |",
        "after Holm's adjustment",
    ):
        assert part in text, part
    assert "[`clipping`](clipping.md)" in (pages / "README.md").read_text(encoding="utf-8")
    # Once more, without a command: nothing is trained, the pages are made anew.
    (pages / "clipping.md").unlink()
    assert ended("--dir", str(tmp_path / "cards")) == 0
    output = capsys.readouterr()
    assert "| clipping" not in output.err and "[`clipping`](clipping.md)" in output.out
    assert (pages / "clipping.md").read_text(encoding="utf-8") == text
    assert len(done(tmp_path)) == trials
    assert ended("sam", "--dir", str(tmp_path / "cards")) == 1
    assert "holds cards of clipping on baseline" in capsys.readouterr().err


def test_a_technique_that_fails_here_ends_no_other_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = processes.write(tmp_path / "pretend.py", PRETENDING)
    words = ["zero", "sam", "ema", "--seeds", "2", "--dir", str(tmp_path / "cards"), "--json"]
    words += ["--", sys.executable, str(script), "{stack}", "{seed}"]
    assert ended(*words) == 0
    result = json.loads(capsys.readouterr().out)
    cards = {card["technique"]: card for card in result["cards"]}
    assert cards["zero"]["verdict"] == "not measured here" and cards["zero"]["seeds"] == 0
    assert cards["zero"]["reason"].startswith("seed 0 ended badly: zero needs DeepSpeed")
    assert cards["sam"]["verdict"] == "no evidence" and cards["sam"]["seeds"] <= 1
    assert "the loss is not finite" in cards["sam"]["reason"]
    assert cards["ema"]["seeds"] == 2
    page = (tmp_path / "cards/cards/zero.md").read_text(encoding="utf-8")
    assert page.startswith("# – `zero`: not measured here\n") and "- Measured: nothing" in page
    assert "Zk93xQv7LmT2pRw8" not in page
    assert "Joules: " in (tmp_path / "cards/cards/ema.md").read_text(encoding="utf-8")
    tried = len([*(tmp_path / "cards/trials").iterdir()])
    assert ended("--dir", str(tmp_path / "cards")) == 0  # what failed is not tried again
    assert len([*(tmp_path / "cards/trials").iterdir()]) == tried


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ema", "--", "true", "{seed}"], "must say where the stack goes"),
        (["ema", "--", "true", "{stack}"], "must say where the seed goes"),
        (["nonsense", "--", "true", "{stack}", "{seed}"], "no technique is called 'nonsense'"),
        (["ema", "--base", "nonsense", "--", "true", "{stack}", "{seed}"], "no technique is"),
        (["--", "true", "{stack}", "{seed}"], "name the techniques"),
        (["ema", "--seeds", "0", "--", "true", "{stack}", "{seed}"], "--seeds: at least 1"),
        (["ema", "--", "false", "{stack}", "{seed}"], "the trial base of block 0 ended with 1"),
        (["ema", "--", "true", "{stack}", "{seed}"], "0 finished runs, not one"),
        (["ema", "--", "nosuchprogram", "{stack}", "{seed}"], "cannot run 'nosuchprogram'"),
        (["--technique", "nonsense", "ema", "--", "true"], "no technique is called 'nonsense'"),
        (["ema"], "there are no cards in"),
        ([], "there are no cards in"),
    ],
)
def test_one_line_for_what_cannot_be_run(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = words.index("--") if "--" in words else len(words)
    assert ended(*words[:at], "--dir", str(tmp_path / "a"), *words[at:]) == 1
    complaint = capsys.readouterr().err
    assert complaint.strip().splitlines()[-1].startswith("probe: ") and says in complaint
    assert "Traceback" not in complaint
    assert not (tmp_path / "a" / "failed.jsonl").exists()  # a bad command is no bad technique
