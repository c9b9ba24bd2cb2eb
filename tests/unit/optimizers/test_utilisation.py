"""Seconds of the steps, and the share of the peak that they reach."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Trainer  # noqa: E402
from optimizers.analysis import flops  # noqa: E402
from optimizers.analysis.flops import Peak, peak, utilisation  # noqa: E402
from probe.report.build import run_report  # noqa: E402
from probe.report.formats import render  # noqa: E402
from probe.store.reader import RunReader  # noqa: E402
from tests.fakes.processes import status_at_end  # noqa: E402

from .models import loss, samples, stacked  # noqa: E402

STEP_S, EVAL_S, STEPS = 0.01, 0.5, 10


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))


class Paced:
    """A training whose steps sleep 10 ms, whose evaluations sleep half a second."""

    def __init__(self, **more: Any):
        self.stops: int | None = None
        self.eval_s = self.step_s = 0.0
        self.trainer = Trainer(
            stacked(),
            samples(64),
            self._loss,
            samples=32 * STEPS,
            batch_size=32,
            evaluate=self._evaluate,
            classify=False,
            quiet=True,
            **more,
        )
        self.step_s = 0.0

    def _loss(self, model, batch):
        if not batch[0].is_meta:
            if self.trainer_step() == self.stops:
                raise KeyboardInterrupt
            time.sleep(STEP_S)
            self.step_s += STEP_S
        return loss(model, batch)

    def trainer_step(self) -> int | None:
        return self.trainer._at.step if hasattr(self, "trainer") else None

    def _evaluate(self, _model):
        begin = time.perf_counter()
        time.sleep(EVAL_S)
        self.eval_s += time.perf_counter() - begin
        return {"accuracy": 1.0}

    def fit(self, **how: Any):
        begin = time.perf_counter()
        result = self.trainer.fit(**how)
        return result, time.perf_counter() - begin


def logged(run: Path | None) -> dict[str, float]:
    assert run is not None
    return {name: float(values[1][-1]) for name, values in RunReader(run).values(0).items()}


@pytest.mark.parametrize("more", [{}, {"eval_every": 128}], ids=["at the end", "in between, too"])
def test_seconds_of_the_steps_hold_no_evaluation(more):
    paced = Paced(**more)
    result, wall_s = paced.fit()
    assert paced.eval_s > 4 * paced.step_s
    for train_s in (result.train_seconds, logged(result.run)["train_s"]):
        assert paced.step_s <= train_s <= wall_s - paced.eval_s
    assert paced.eval_s + paced.step_s <= result.seconds <= wall_s
    assert 0 < result.mfu <= 1
    per_s = float(str(result).partition("(")[2].split()[0])
    assert per_s == pytest.approx(result.samples / result.train_seconds, rel=0.01)


def test_seconds_of_the_steps_with_a_target_that_ends_the_training():
    paced = Paced(eval_every=64, target="accuracy>=0.5")
    result, wall_s = paced.fit()
    assert result.reached and result.steps == 4
    assert paced.step_s <= result.train_seconds <= wall_s - paced.eval_s
    # The first of the two evaluations crossed it: before it there were steps only.
    assert 2 * STEP_S <= result.to_target[1] <= wall_s - paced.eval_s


def test_seconds_of_the_steps_go_on_from_a_snapshot(tmp_path):
    more = {"snapshots": tmp_path / "snapshots", "snapshot_every": 4, "eval_every": 128}
    first = Paced(**more)
    first.stops = 5
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        first.fit()
    before_s = time.perf_counter() - begin
    second = Paced(**more)
    result, wall_s = second.fit(resume=True)
    assert result.steps == STEPS and second.trainer._at.samples == 32 * STEPS
    least = STEPS * STEP_S
    assert least <= result.train_seconds <= before_s - first.eval_s + wall_s - second.eval_s
    assert logged(result.run)["train_s"] == pytest.approx(result.train_seconds)


def test_a_share_above_the_peak_is_refused_with_its_reason():
    assert utilisation(1e6, 1e3, Peak(4e9, "some peak")).mfu == 0.25
    refused = utilisation(1e6, 1e3, Peak(1e9 / 4.37, "measured peak"))
    assert refused.mfu is None and refused.reason == "437% of the measured peak"
    assert utilisation(None, 1.0, Peak(1.0, "")).reason and utilisation(1.0, 1.0, None).reason


def test_a_training_above_the_measured_peak_says_so_and_logs_no_share(monkeypatch):
    monkeypatch.setattr(flops, "matmul_rate", lambda *_: 1.0)
    result, _ = Paced().fit()
    assert result.mfu is None and "mfu" not in logged(result.run)
    assert "MFU not stated: " in str(result) and "% of the measured matmul peak" in str(result)
    status_at_end(result.run)  # what a process says at its end is written with it
    stored = run_report(result.run)
    (note,) = [line for line in stored.warnings if line.startswith("MFU is not stated: ")]
    assert note.endswith(result.mfu_reason) and "% of the measured matmul peak" in note
    for form in ("text", "md", "html", "json"):
        shown = render(stored, form)
        assert isinstance(shown, str)
        assert result.mfu_reason.split()[0] in shown, form


def test_the_peak_of_an_emulated_precision_is_that_of_fp32(monkeypatch):
    rates = {torch.float16: 2e9, torch.bfloat16: 4e11, torch.float32: 2e11}
    monkeypatch.setattr(flops, "matmul_rate", lambda _device, dtype: rates[dtype])
    assert peak("cpu", torch.float32).per_s == 2e11
    assert peak("cpu", torch.bfloat16).per_s == 4e11
    emulated = peak("cpu", torch.float16)
    assert emulated.per_s == 2e11 and "float16 is slower on this CPU" in emulated.source
