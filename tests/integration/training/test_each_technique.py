"""What holds of each technique: any pair trains, snapshots go on bit by bit, ranks agree."""

from __future__ import annotations

import contextlib
import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.stack import discover  # noqa: E402
from tests.fakes.selection import rows_one_in  # noqa: E402
from tests.unit.optimizers.models import Mixed, MixedSamples, loss  # noqa: E402

from .test_training import place, two_ranks  # noqa: E402, F401  (place: a fixture)

ALONE = [
    "schedule(shape=wsd)",
    "ema",
    "ema(mode=equal,start=0.3)",
    "muon",
    "schedule_free",
    "resizing",
    "sequence",
    "freezing",
    "sam",
]
UNDER_ZERO = "schedule(shape=wsd),ema,resizing,sequence"
IN_HALF = f"{UNDER_ZERO},muon(lr=0.02),freezing"
TOGETHER = f"{IN_HALF},sam(every=3)"
ALONE_AND_TOGETHER = [
    TOGETHER,
    *(pytest.param(text, marks=pytest.mark.full) for text in ALONE),
    pytest.param("schedule_free,precision(dtype=bf16,mode=master)", marks=pytest.mark.full),
    pytest.param(f"{IN_HALF},precision(dtype=bf16,mode=master)", marks=pytest.mark.full),
]
PAIRED = [
    "schedule(shape=rex)",
    "ema",
    "muon",
    "schedule_free",
    "resizing(delay=0)",
    "sequence(full=0.8)",
    "freezing",
    "sam(every=2)",
]
SLOW = {"compile", "loader"}  # a minute of the C++ compiler, and processes that are started
PAIRS = [
    (text, other)
    for text in PAIRED
    for other in sorted(discover().keys() - SLOW - {text.partition("(")[0]})
]


class Stopped(Exception):
    """As if the job had been killed."""


def trained(stack, folder=None, stop=None):
    """Weights, and each loss with its step, of 16 steps or of those until it is stopped."""
    model, losses = Mixed(dropout=0.1), []

    def noted(model, batch):
        value = loss(model, batch)
        losses.append((trainer._at.step, value.item()))
        return value

    trainer = Trainer(
        model,
        MixedSamples(),
        noted,
        stack=Stack.of(stack),
        samples=16 * 32,
        batch_size=32,
        lr=3e-3,
        snapshots=folder,
        snapshot_every=4 if folder else 0,
        classify=False,
        quiet=True,
    )
    losses.clear()  # operations were counted
    torch.manual_seed(5)
    before = trainer._step

    def step(run):
        if trainer._at.step == stop:
            raise Stopped
        return before(run)

    trainer._step = step
    with contextlib.suppress(Stopped):
        trainer.fit(resume=folder is not None)
    return torch.cat([p.detach().float().flatten() for p in model.parameters()]), losses


@pytest.mark.parametrize("stack", ALONE_AND_TOGETHER)
def test_a_stopped_training_goes_on_bit_by_bit(stack, tmp_path):
    unbroken, all_losses = trained(stack, tmp_path / "unbroken")
    _, before = trained(stack, tmp_path / "stopped", stop=10)
    weights, after = trained(stack, tmp_path / "stopped")
    assert torch.equal(weights, unbroken)
    assert [each for each in before if each[0] < 8] + after == all_losses
    assert {step for step, _ in all_losses} == set(range(16))


@pytest.mark.parametrize(("text", "other"), rows_one_in(6, PAIRS))
def test_every_pair_that_goes_together_trains(text, other):
    name, kinds = text.partition("(")[0], discover()
    if other in kinds[name].conflicts or name in kinds[other].conflicts:
        with pytest.raises(TechniqueRefused):
            Stack.of(f"{text},{other}")
        return
    start = torch.cat([p.detach().flatten() for p in Mixed().parameters()])
    weights, losses = trained(f"{text},{other}")
    assert len(losses) >= 16 and all(math.isfinite(value) for _, value in losses)
    assert torch.isfinite(weights).all() and not torch.equal(weights, start)


@pytest.mark.parametrize("stack", ALONE_AND_TOGETHER)
def test_two_ranks_agree_bit_by_bit_and_go_on_from_a_snapshot(stack, tmp_path):
    assert two_ranks("resume", stack, str(tmp_path), "mixed") == {"ranks": 0.0, "off": 0.0}


@pytest.mark.full
@pytest.mark.parametrize("also", ["zero(stage=1)", "zero,precision(dtype=bf16,mode=master)"])
def test_under_zero_ranks_agree_bit_by_bit_too(also, tmp_path):
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    stack = f"{UNDER_ZERO},{also}"
    assert two_ranks("resume", stack, str(tmp_path), "mixed") == {"ranks": 0.0, "off": 0.0}
