"""The stages of `make gpu`: functions of a card, of a length, and of a folder to keep files in."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import probe
from benchmarks.harness.results import ROOT
from probe.calibrate.measure import measure
from probe.errors import NothingToReport

from .cards import Busy, Card
from .reads import raw_reads
from .step_times import step_times

MODELS = {"GPT-2": "gpt2_wikitext2.py", "ResNet-50": "resnet50_cifar10.py"}
STACKS = ("baseline", "paper")
_BURST_S = (0.005, 0.05)
_ROWS = ("phase", "device", "count", "time_s", "energy_j", "energy_j_interval", "power_w", "status")


@dataclasses.dataclass(frozen=True, slots=True)
class Length:
    """How long stages take, in seconds, and of how many samples trainings are."""

    reads_s: float = 60.0
    wave_s: float = 20.0
    alone_s: float = 20.0
    mixed_s: float = 60.0
    forward_s: float = 40.0
    block_s: float = 4.0
    blocks: int = 20
    samples: int | None = 4096
    size: tuple[str, ...] = ()


SHORT = Length(12.0, 10.0, 3.0, 25.0, 20.0, 1.0, 6, 64, ("--size", "tiny"))
Stage = Callable[[Card, Length, Path], dict[str, Any]]


def reads(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """Raw reads at 1 ms under a random square wave."""
    return raw_reads(card, length.reads_s, folder / "reads.npz")


def calibration(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """What `probe calibrate` finds."""
    record = folder / "calibration.npz"
    load = Busy(card.loads["matmul"])
    return dataclasses.asdict(measure(card.uuid, load, length.wave_s, record=record))


def loads(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """Known loads in bursts, each beside waits and then all mixed: do the powers agree?

    A load that lasts meets the card's power limit and a burst does not, so the powers to compare
    with are those of bursts. They come from totals alone: all energy, less that of the waits.
    """
    # This warms the card, too: leakage follows temperature.
    lasting = _watched(card, "lasting", lambda _: card.loads["matmul"](length.alone_s), folder)
    idle = _watched(card, "sleep", lambda _: card.loads["sleep"](length.alone_s), folder)
    burst_w = {"sleep": _mean_w(idle)}
    for name in sorted(card.loads.keys() - burst_w.keys()):
        busy_s: list[float] = []

        def bursts(_: Any, name: str = name, busy_s: list[float] = busy_s) -> None:
            end = time.monotonic() + length.alone_s
            while time.monotonic() < end:
                begin = time.monotonic()
                card.loads[name](random.uniform(*_BURST_S))
                busy_s.append(time.monotonic() - begin)
                card.loads["sleep"](random.uniform(*_BURST_S))

        report = _watched(card, name, bursts, folder)
        waits_s = report["run"]["duration_s"] - sum(busy_s)
        burst_w[name] = (report["total"]["energy_j"] - burst_w["sleep"] * waits_s) / sum(busy_s)

    def mixture(run: Any) -> None:
        end = time.monotonic() + length.mixed_s
        while time.monotonic() < end:
            for name in random.sample(sorted(card.loads), len(card.loads)):
                with run.phase(name):
                    card.loads[name](random.uniform(*_BURST_S))

    mixed = _watched(card, "mixture", mixture, folder)
    return {
        "lasting_matmul_w": _mean_w(lasting),
        "burst_w": burst_w,
        "mixed": _rows(mixed),
        "sources": mixed["sources"],
    }


def forward_twice(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """A forward that runs once and twice, beside a wait.

    Two runs that mix the two differently give both powers from totals alone.
    """
    reports = []
    for times in (1, 2):

        def steps(run: Any, times: int = times) -> None:
            end = time.monotonic() + length.forward_s
            while time.monotonic() < end:
                with run.phase("forward-alone"):
                    card.forward(times)
                with run.phase("wait"):
                    time.sleep(random.uniform(0.005, 0.03))

        reports.append(_watched(card, f"forward-{times}", steps, folder))
    once, twice = reports
    names = ("forward-alone", "wait")
    seconds = [[_seconds(report, name) for name in names] for report in reports]
    joules = [
        report["total"]["energy_j"] * sum(of_phases) / report["run"]["duration_s"]
        for report, of_phases in zip(reports, seconds, strict=True)
    ]
    powers = np.linalg.solve(np.array(seconds), np.array(joules))
    return {
        "from_totals_w": dict(zip(names, powers.tolist(), strict=True)),
        "once": _rows(once),
        "twice": _rows(twice),
        "sources": [report["sources"] for report in reports],
    }


def overhead(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """Steps of a small GPT, watched and not, in turns."""
    return step_times(card, length.block_s, length.blocks)


def models(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """Steps of the models that are shipped."""
    return {name: _trained(script, "baseline", length) for name, script in MODELS.items()}


def stacks(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """The trainer's stacks on the same samples."""
    return {stack: _trained(MODELS["GPT-2"], stack, length) for stack in STACKS}


def several_cards(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """Two ranks, if there are two cards: NCCL, or gloo on a stand-in."""
    if card.number < 2:
        return {"absent": "one card only"}
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    return _trained(MODELS["GPT-2"], "baseline", length, launcher=torchrun)


STAGES: dict[str, Stage] = {
    "reads": reads,
    "calibration": calibration,
    "loads": loads,
    "forward_twice": forward_twice,
    "overhead": overhead,
    "models": models,
    "stacks": stacks,
    "several_cards": several_cards,
}


def _watched(card: Card, name: str, work: Callable[[Any], None], folder: Path) -> dict[str, Any]:
    """The report of a run of ``work``, whose recording stays in the folder as ``<name>.run.txz``.

    So a later version of the estimator can be held against the same readings.
    """
    with tempfile.TemporaryDirectory() as runs:
        with probe.watch(name=name, dir=runs, devices=card.uuid) as run:
            work(run)
        report = dict(run.report().to_dict())
        with tarfile.open(folder / f"{name}.run.txz", "w:xz") as archive:
            archive.add(run.path, arcname=name)
    return report


def _mean_w(report: dict[str, Any]) -> float:
    return float(report["total"]["energy_j"] / report["run"]["duration_s"])


def _seconds(report: dict[str, Any], phase: str) -> float:
    return sum(row["time_s"] for row in _rows(report) if row["phase"] == phase)


def _rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: row[name] for name in _ROWS}
        for row in report["phases"]
        if row["device"].startswith("gpu")
    ]


def _trained(
    script: str, stack: str, length: Length, launcher: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The report of an example's training, without its curves."""
    with tempfile.TemporaryDirectory() as runs:
        samples = () if length.samples is None else ("--samples", str(length.samples))
        command = [sys.executable, *launcher, str(ROOT / "examples" / script), "--stack", stack]
        environment = os.environ | {"PROBE_DIR": runs, "HF_HUB_OFFLINE": "1"}
        for step in (
            [*command, *samples, *length.size],
            [sys.executable, "-m", "probe", "report", "latest", "--format", "json"],
        ):
            done = subprocess.run(
                step, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise NothingToReport(f"{script} --stack {stack}: {last}")
        report = json.loads(done.stdout)
    return {
        "run": {key: report["run"][key] for key in ("steps", "step_s", "duration_s", "ranks")},
        "total": report["total"],
        "phases": _rows(report),
        "communication": report["communication"],
        "warnings": report["warnings"],
    }
