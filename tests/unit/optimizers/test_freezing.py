"""Frozen layers against a loop by hand that steps the others only."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.techniques.freezing import LayerFreezing, front  # noqa: E402
from optimizers.training.data import Order  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402

from .models import loss, samples, stacked  # noqa: E402

STEPS = 20


pytestmark = pytest.mark.usefixtures("one_thread")


def trainer_of(model, stack, batch_loss=loss):
    return Trainer(
        model,
        samples(256),
        batch_loss,
        stack=Stack.of(stack),
        samples=32 * STEPS,
        batch_size=32,
        lr=0.01,
        seed=3,
        classify=False,
        quiet=True,
    )


def test_the_steps_are_those_of_an_optimizer_that_loses_the_front():
    """Bit for bit. The front neither moves nor decays, the rest keeps its moments."""
    model, by_hand = stacked(), stacked()
    result = trainer_of(model, "freezing(start=0.4,layers=0.5)").fit()
    order = iter(Order(256, 32, rank=0, world=1, seed=3))
    # 14 layers: a linear one, four times norm, up and down, a linear one; so 7 of them.
    before = [*by_hand[0].parameters(), *by_hand[1][:2].parameters()]
    after = [*by_hand[1][2:].parameters(), *by_hand[2].parameters()]
    assert len(before) + len(after) == len(list(by_hand.parameters()))
    optimizers = [torch.optim.AdamW(p, lr=0.01, weight_decay=0.01) for p in (before, after)]
    for step in range(STEPS):
        value = loss(by_hand, samples(256)[next(order)])
        value.backward()
        for optimizer in optimizers if step < 8 else optimizers[1:]:
            optimizer.step()
        by_hand.zero_grad()
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert result.mfu is None and result.mfu_reason == "layers are frozen during the training"


@pytest.mark.parametrize("also", ["", ",accumulation(k=2)", ",precision(dtype=bf16,mode=master)"])
def test_no_backward_passes_the_front_once_it_is_frozen(also):
    model, passed = stacked(), []
    boundary = model[1][1]  # the last of the frozen layers' outputs

    def noted(model, batch):
        handle = boundary.register_forward_hook(
            lambda _module, _inputs, output: passed.append(output.requires_grad)
        )
        try:
            return loss(model, batch)
        finally:
            handle.remove()

    trainer = trainer_of(model, f"freezing(start=0.4,layers=0.5){also}", noted)
    passed.clear()  # operations were counted
    trainer.fit()
    k = trainer.plan.accumulation.k
    assert passed == [True] * (8 * k) + [False] * (12 * k)
    assert trainer.report().run.steps == STEPS


def test_the_variance_is_that_of_what_is_still_trained():
    """Its hooks cannot be set on frozen parameters; the training goes on all the same."""
    trainer = trainer_of(
        stacked(), "freezing(start=0.4),accumulation(adaptive=true,k=2,k_max=4,target=0.01)"
    )
    assert trainer.fit().steps == STEPS
    trainer = trainer_of(stacked(), "freezing(start=0),accumulation(k=2)")  # hooks come and go
    assert trainer.fit().steps == STEPS


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(4, 4), nn.Linear(4, 4)
        self.third, self.last = nn.LayerNorm(4), nn.Linear(4, 4, bias=False)
        self.last.weight = self.first.weight


def test_what_a_later_layer_uses_as_well_is_trained_to_the_end():
    model = Tied()
    assert {id(p) for p in front(model, 0.5)} == {id(p) for p in model.second.parameters()}
    untied = copy.deepcopy(model)
    untied.last.weight = nn.Parameter(torch.ones(4, 4))
    assert len(front(untied, 0.5)) == 3
    untied.second.requires_grad_(False)
    assert [p.shape for p in front(untied, 0.5)] == [(4, 4)]


def test_a_model_with_nothing_to_freeze_is_refused_in_a_line():
    with pytest.raises(
        TechniqueRefused, match="freezing: the first 50% of the model's 1 l"
    ) as line:
        trainer_of(nn.Linear(16, 5), "freezing")
    assert "\n" not in str(line.value)


@pytest.mark.parametrize(
    ("technique", "line"),
    [
        (LayerFreezing(start=1.0), "start=1.0"),
        (LayerFreezing(layers=0.0), "layers=0.0"),
        (LayerFreezing(layers=1.0), "layers=1.0"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_line(technique, line):
    assert line in refusal(technique)


def test_exchanges_compile_and_zero_are_refused_in_a_line():
    for other in ("topk", "compile", "zero"):
        with pytest.raises(TechniqueRefused, match=f"freezing does not go with {other}"):
            Stack.of(f"freezing,{other}")
