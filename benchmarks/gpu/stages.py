"""The stages of `make gpu`: functions of a card, of a length, and of a folder to keep files in."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import probe
from benchmarks.harness.results import ROOT
from probe.calibrate.measure import measure
from probe.errors import NothingToReport

from .cards import Busy, Card
from .reads import raw_reads

MODELS = {"GPT-2": "gpt2_wikitext2.py", "ResNet-50": "resnet50_cifar10.py"}
STACKS = ("baseline", "paper")
_ROWS = ("phase", "device", "count", "time_s", "energy_j", "energy_j_interval", "power_w", "status")


@dataclasses.dataclass(frozen=True, slots=True)
class Length:
    """How long stages take, in seconds, and of how many samples trainings are."""

    reads_s: float = 60.0
    wave_s: float = 20.0
    alone_s: float = 20.0
    mixed_s: float = 60.0
    forward_s: float = 40.0
    samples: int | None = 4096
    size: tuple[str, ...] = ()


SHORT = Length(12.0, 10.0, 3.0, 25.0, 20.0, 64, ("--size", "tiny"))
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
    """Known loads, each alone and then all mixed: are the powers of the mixture those alone?"""
    card.loads["matmul"](length.alone_s / 2)  # warm: leakage follows temperature
    alone_w = {}
    for name, load in card.loads.items():
        report = _watched(card, name, lambda _, load=load: load(length.alone_s))
        alone_w[name] = report["total"]["energy_j"] / report["run"]["duration_s"]

    def mixture(run: Any) -> None:
        end = time.monotonic() + length.mixed_s
        while time.monotonic() < end:
            for name in random.sample(sorted(card.loads), len(card.loads)):
                with run.phase(name):
                    card.loads[name](random.uniform(0.005, 0.05))

    mixed = _watched(card, "mixture", mixture)
    return {"alone_w": alone_w, "mixed": _rows(mixed), "sources": mixed["sources"]}


def forward_twice(card: Card, length: Length, folder: Path) -> dict[str, Any]:
    """A forward that runs once and twice, beside a wait: has it twice the energy?"""
    energies = []
    for times in (1, 2):

        def steps(run: Any, times: int = times) -> None:
            end = time.monotonic() + length.forward_s
            while time.monotonic() < end:
                with run.phase("forward-alone"):
                    card.forward(times)
                with run.phase("wait"):
                    time.sleep(random.uniform(0.005, 0.03))

        report = _watched(card, f"forward x {times}", steps)
        energies.append(_rows(report))
    return {"once": energies[0], "twice": energies[1]}


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
    "models": models,
    "stacks": stacks,
    "several_cards": several_cards,
}


def _watched(card: Card, name: str, work: Callable[[Any], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as runs:
        with probe.watch(name=name, dir=runs, devices=card.uuid) as run:
            work(run)
        return dict(run.report().to_dict())


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
