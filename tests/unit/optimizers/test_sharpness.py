"""The sharpness-aware step against its formula in float64, and the steps between."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan, Precision  # noqa: E402
from optimizers.techniques.sam import SharpnessAware  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402

from .models import CLASSES, WIDTH, loss, samples, stacked  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def sgd(parameters, *, lr, **_):
    return torch.optim.SGD(parameters, lr=lr)


def trainer_of(model, stack, batch_loss=loss, steps=12):
    return Trainer(
        model,
        samples(64),
        batch_loss,
        stack=Stack.of(stack),
        samples=64 * steps,
        batch_size=64,
        lr=0.1,
        optimizer=sgd,
        classify=False,
        quiet=True,
    )


def flat(model):
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


@pytest.mark.parametrize("also", ["", ",accumulation(k=3)"])
def test_a_step_on_a_quadric_is_the_formula(also):
    """L = ½·mean((X w − y)²): g = A w − b, and the step is that of g at w + ρ g/‖g‖."""
    x = samples(64).tensors[0]
    y = torch.randn(64, 1, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, 1, bias=False)
    w = model.weight.detach().double().numpy()[0]

    def squares(model, batch):
        return (model(batch[0]) - batch[1]).square().mean() / 2

    trainer = Trainer(
        model,
        torch.utils.data.TensorDataset(x, y),
        squares,
        stack=Stack.of(f"sam(rho=0.5,every=2){also}"),
        samples=64 * 5,
        batch_size=64,
        lr=0.1,
        optimizer=sgd,
        classify=False,
        quiet=True,
    )
    trainer.fit()
    matrix, right = x.double().numpy(), y.double().numpy()[:, 0]
    plain = w.copy()
    for step in range(5):  # a batch is all of the data, in any order
        plain = plain - 0.1 * matrix.T @ (matrix @ plain - right) / 64
        g = matrix.T @ (matrix @ w - right) / 64
        if step % 2 == 0:
            g = matrix.T @ (matrix @ (w + 0.5 * g / np.linalg.norm(g)) - right) / 64
        w = w - 0.1 * g
    ours = model.weight.detach().double().numpy()[0]
    np.testing.assert_allclose(ours, w, rtol=0, atol=1e-6)
    assert np.abs(ours - plain).max() > 1e-3


def test_losses_and_statistics_are_those_of_the_weights_themselves():
    """One step: what is logged, and what a batch norm has seen, is as without it."""
    models = []
    for stack in ("sam(rho=1.0)", "baseline"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
        result = trainer_of(model, stack, steps=1).fit()
        models.append((model, result.losses))
    (aware, aware_losses), (plain, plain_losses) = models
    assert aware_losses == pytest.approx(plain_losses, rel=1e-6)
    assert torch.equal(aware[1].running_mean, plain[1].running_mean)
    assert torch.equal(aware[1].running_var, plain[1].running_var)
    assert aware[1].num_batches_tracked == 1
    assert not torch.allclose(flat(aware), flat(plain), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "also", ["", ",accumulation(adaptive=true,k=2,k_max=4,target=0.01)", ",precision(dtype=fp16)"]
)
def test_the_steps_between_have_one_backward_and_a_step_is_one_step(also):
    calls = []

    def noted(model, batch):
        calls.append(trainer._at.step)
        return loss(model, batch)

    trainer = trainer_of(stacked(), f"sam(every=4){also}", noted)
    ks, before = [], trainer._step
    trainer._step = lambda run: (ks.append(trainer._policy.k), before(run))[1]
    calls.clear()  # operations were counted
    result = trainer.fit()
    assert [calls.count(step) for step in range(12)] == [
        k * (2 if step % 4 == 0 else 1) for step, k in enumerate(ks)
    ]
    assert trainer.report().run.steps == result.steps == 12
    assert result.mfu_reason == "some steps have a second backward"
    assert torch.isfinite(flat(trainer.engine.module)).all()


def test_the_variance_of_a_step_is_of_the_gradients_that_it_takes():
    """Both passes of a step must not be counted as one: σ² would be many times as large."""
    logged = {}
    for stack in ("sam(rho=1e-6,every=1),accumulation(k=4)", "accumulation(k=4)"):
        trainer = trainer_of(stacked(), stack, steps=3)
        measure = trainer._gradients.end
        seen = logged[stack] = []
        trainer._gradients.end = lambda *a, m=measure, s=seen: (lambda r: (s.append(r[1]), r)[1])(
            m(*a)
        )
        trainer._gradients.always = trainer._gradients._with_variance = True
        trainer.fit()
    for aware, plain in zip(*logged.values(), strict=True):
        assert aware["grad_variance"] == pytest.approx(plain["grad_variance"], rel=1e-3)


@pytest.mark.parametrize(
    ("technique", "plan", "line"),
    [
        (SharpnessAware(rho=0.0), Plan(), "rho=0.0"),
        (SharpnessAware(every=0), Plan(), "every=0"),
        (
            SharpnessAware(),
            Plan(precision=Precision("master", torch.bfloat16)),
            "sam does not go with precision in mode=master",
        ),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_line(technique, plan, line):
    assert line in refusal(technique, plan)


def test_exchanges_and_zero_are_refused_in_a_line():
    for other in ("int8", "zero"):
        with pytest.raises(TechniqueRefused, match=f"sam.* does not go with {other}|{other}.* sam"):
            Stack.of(f"sam,{other}")
