"""‖ḡ‖ and σ² of trainings whose k does not follow them: right, seldom, and never in the way."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.training.engines import Stepped  # noqa: E402
from optimizers.training.gradients import GradientWatch  # noqa: E402
from optimizers.training.snapshot import Position  # noqa: E402
from probe.compare.objective.read import GRADIENT_NORM, gradient  # noqa: E402
from probe.compare.read_run import Recording  # noqa: E402
from probe.store.reader import RunReader  # noqa: E402

from .models import loss, samples, stacked, two_pass  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class Standing(torch.optim.SGD):
    """Changes no weight and notes ‖ḡ‖ of each step."""

    norms: list[float]

    def step(self, closure=None):
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        self.norms.append(math.sqrt(sum(float(g.double().square().sum()) for g in gradients)))


def trained(stack: str, steps: int = 60, **more):
    """(logged values, micro-batches, ‖ḡ‖ of each step, model, trainer, result)."""
    made, batches = [], []

    def make(parameters, *, lr):
        made.append(Standing(parameters, lr=lr))
        made[0].norms = []
        return made[0]

    def noted(model, batch):
        if not batch[0].is_meta:
            batches.append(batch)
        return loss(model, batch)

    model = stacked()
    settings = {"samples": 64 * steps, "batch_size": 64, "quiet": True, "classify": False}
    trainer = Trainer(
        model, samples(256), noted, stack=Stack.of(stack), optimizer=make, **settings | more
    )
    result = trainer.fit()
    values = {name: v[1] for name, v in RunReader(result.run).values(0).items()}
    return values, batches, made[0].norms, model, trainer, result


def test_a_baseline_has_the_norm_of_its_gradient_and_says_that_sigma_is_unknown():
    values, _, norms, _, trainer, _ = trained("baseline")
    assert 1 <= len(values["grad_norm"]) <= 6
    assert values["grad_norm"][0] == pytest.approx(norms[10], rel=1e-6)
    assert {round(v, 5) for v in values["grad_norm"]} <= {round(norm, 5) for norm in norms[10::10]}
    assert "grad_variance" not in values and "σ² is unknown" in trainer.table


@pytest.mark.parametrize("stack", ["accumulation(k=4)", "accumulation(k=4),clipping(norm=100)"])
def test_with_micro_batches_there_is_a_variance_and_the_objective_finds_it(stack):
    values, batches, norms, model, trainer, result = trained(stack)
    assert values["grad_norm"][0] == pytest.approx(norms[10], rel=1e-6)
    truth = two_pass(model, batches[40:44])
    assert values["grad_variance"][0] == pytest.approx(truth, rel=1e-4)
    assert set(values["k"]) == {4.0} and "unknown" not in trainer.table
    # ‖∇L‖² ≈ ‖ḡ‖² − σ²/n, of the same steps, from gradients that were all kept.
    steps = [i for i in range(10, 60) if any(abs(norms[i] - v) < 1e-6 * v for v in
             values["grad_norm"])]  # fmt: skip
    squares = [norms[i] ** 2 - two_pass(model, batches[4 * i : 4 * i + 4]) / 4 for i in steps]
    estimated = gradient(Recording(result.run).logged, 1)[GRADIENT_NORM]
    assert estimated == pytest.approx(math.sqrt(max(float(np.mean(squares)), 0.0)), rel=0.02)


def test_no_hook_stays_on_the_parameters():
    *_, model, _, _ = trained("accumulation(k=2)")
    assert not any(p._backward_hooks for p in model.parameters())


def test_sparse_gradients_have_no_norm_and_train_as_before():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8, sparse=True)

        def forward(self, x):
            return self.table(x).mean(1)

    data = torch.randint(0, 50, (64, 4))
    trainer = Trainer(
        Words(),
        data,
        lambda model, batch: model(batch).square().mean(),
        stack=Stack.of("accumulation(k=2)"),
        optimizer=lambda parameters, *, lr: torch.optim.SGD(parameters, lr=lr),
        samples=16 * 40,
        batch_size=16,
        quiet=True,
        classify=False,
    )
    result = trainer.fit()
    assert result.steps == 40 and "grad_norm" not in RunReader(result.run).values(0)


@pytest.mark.parametrize("norm_s", [1e-6, 3e-4, 4.7e-3, 0.19])
def test_what_is_measured_costs_a_hundredth_of_the_steps_between(norm_s, monkeypatch):
    """Steps of 10 ms, a norm that takes so long: they are counted until the next is measured."""
    still = SimpleNamespace(perf_counter=lambda: 0.0)  # nothing else takes any time
    monkeypatch.setattr("optimizers.training.gradients.time", still)
    watch = GradientWatch(stacked().parameters(), Plan(batch_size=64), compiled=False)
    at, measured = Position(), []
    watch.start(at)
    for _ in range(10_000):
        if watch.begin(at, 1):
            measured.append(at.step)
            watch.end(Stepped(1.0, norm_s=norm_s), 1, 64)
        at.step += 1
        at.train_seconds += 0.01
    assert measured[0] == 10
    apart = set(np.diff(measured[:-1]))
    assert len(apart) == 1 and all(step % 10 == 0 for step in measured)
    step = apart.pop()
    assert norm_s <= 0.01 * step * 0.01 * 1.001
    assert step == 10 or norm_s >= 0.005 * (step - 10) * 0.01 * 0.99  # nor much more seldom


def test_a_resumed_training_waits_for_steps_of_its_own():
    watch = GradientWatch(stacked().parameters(), Plan(batch_size=64), compiled=False)
    at = Position(step=17, train_seconds=1.7)
    watch.start(at)
    measured = []
    for _ in range(30):
        if watch.begin(at, 1):
            measured.append(at.step)
            watch.end(Stepped(1.0), 1, 64)
        at.step += 1
        at.train_seconds += 0.01
    assert measured[0] == 20
