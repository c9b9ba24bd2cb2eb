"""``Trainer(classify=…)`` and ``watch(classify=…)``: what a run keeps, and what compare reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import probe  # noqa: E402
from optimizers import Stack, Trainer  # noqa: E402
from optimizers.analysis import roofline  # noqa: E402
from probe.compare.comparison import compare  # noqa: E402
from probe.compare.formats import render  # noqa: E402
from probe.compare.read_run import MARKS, Recording  # noqa: E402
from probe.compare.run_record import Trial  # noqa: E402
from probe.compare.sides import Question, Side  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

COUNTED = {"forward", "backward", "optimizer"}


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path / "ridge"))


def read(path: Path) -> Trial:
    return Recording(path).trial(None, None, dict.fromkeys(MARKS))


def fitted(**options: Any) -> Trial:
    trainer = Trainer(
        stacked(), samples(64), loss, samples=256, batch_size=16, quiet=True, **options
    )
    return read(trainer.fit().run)


def test_the_trainer_counts_by_default_and_not_if_told_so() -> None:
    counted = fitted()
    assert set(counted.bound_share) == COUNTED and counted.bound_share["optimizer"] == 1.0
    assert not fitted(classify=False).bound_share


def test_what_the_trainer_cannot_count_is_counted_in_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roofline, "memory_bound", lambda *_: None)
    assert set(fitted().bound_share) == COUNTED


def test_the_stack_of_a_run_is_read() -> None:
    plain, clipped = fitted(), fitted(stack=Stack.of("clipping,schedule"))
    assert plain.techniques == {} and set(clipped.techniques) == {"clipping", "schedule"}


def watched(**options: Any) -> Trial:
    model = stacked()
    optimizer = torch.optim.AdamW(model.parameters())
    with probe.watch(model, optimizer, **options) as run:
        for batch in torch.utils.data.DataLoader(samples(64), 16):
            loss(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(samples=16)
    return read(run.path)


def test_watch_counts_if_asked_by_argument_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not watched().bound_share
    asked = watched(classify=True).bound_share
    assert set(asked) == COUNTED and all(0 <= share <= 1 for share in asked.values())
    monkeypatch.setenv("PROBE_CLASSIFY", "1")
    assert watched().bound_share == asked  # the rates are kept: the same shares every time


def frozen_half(seed: int) -> Trial:
    """The forward of a frozen first half is not in autograd's graph."""
    model = stacked(seed=seed)
    for part in (model[0], model[1][:3]):
        part.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    with probe.watch(model, optimizer, classify=True) as run:
        for batch in torch.utils.data.DataLoader(samples(64), 16):
            loss(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(samples=16)
    return read(run.path)


def test_why_a_step_was_not_counted_reaches_the_comparison() -> None:
    base, other = ([frozen_half(seed) for seed in range(2)] for _ in range(2))
    report = compare(Side("base", base), [Side("other", other)], Question())
    why = "a part of the model is frozen, and no gradient passes it"
    assert not report.memory_separated and report.not_separated_because == why
    assert f"not separated, since {why}" in " ".join(render(report).split())


def test_two_ways_of_counting_agree() -> None:
    """The trainer's, on tensors without values, and that of autograd's graph."""
    trainer, graph = fitted().bound_share, watched(classify=True).bound_share
    for phase in ("forward", "backward"):
        assert abs(trainer[phase] - graph[phase]) < 0.15, (trainer, graph)
