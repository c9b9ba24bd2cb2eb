"""fp16 weights beside fp32 masters, under a loss scale, against numpy's own float16 (13) (14)."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.training.data import Order  # noqa: E402
from probe.store.reader import RunReader  # noqa: E402

RATE, STEPS, FIRST_SCALE = 2.0**-3, 40, 65536.0
HALF, FULL = np.float16, np.float32


class Product(nn.Module):
    """One weight times one number: every operation is one rounding, in torch as in numpy."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x):
        return self.weight * x


def squared(model, batch):
    return (model(batch[0]).float() - batch[1]).square().mean()


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_every_weight_and_loss_scale_is_that_of_numpy(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (64, 1)).astype(FULL)
    y = (1.7 * x + 3).astype(FULL)
    seen: list[float] = []

    def noted(model, batch):
        if not batch[0].is_meta:
            seen.append(model.weight.item())
        return squared(model, batch)

    trainer = Trainer(
        Product(),
        TensorDataset(torch.from_numpy(x), torch.from_numpy(y)),
        noted,
        stack=Stack.of("precision(dtype=fp16,mode=master)"),
        optimizer=lambda parameters, *, lr: torch.optim.SGD(parameters, lr=lr),
        samples=STEPS,
        batch_size=1,
        lr=RATE,
        quiet=True,
        classify=False,
    )
    seen.clear()
    scales = RunReader(trainer.fit().run).values(0)["loss_scale"][1]

    order = iter(Order(64, 1, rank=0, world=1, seed=0))
    master, scale, weights, expected = FULL(0.3), FULL(FIRST_SCALE), [], []
    master = FULL(HALF(master))  # the model was halved before its copy was made
    skipped = 0
    for _ in range(STEPS):
        (i,) = next(order)
        weight, half_x = HALF(master), HALF(x[i, 0])
        weights.append(float(weight))
        off = FULL(HALF(weight * half_x)) - y[i, 0]
        upstream = HALF(FULL(2) * off * scale)  # the gradient crosses into fp16 where it was cast
        gradient = FULL(HALF(upstream * half_x))
        if np.isfinite(gradient):
            master = FULL(master - FULL(RATE) * (gradient * (FULL(1) / scale)))
        else:
            skipped += 1
            scale = FULL(scale / 2)
        expected.append(float(scale))
    assert 0 < skipped < STEPS / 2, "both outcomes were met"
    assert seen == weights
    assert scales.tolist() == expected


def test_the_loss_scale_doubles_after_steps_without_overflow(tmp_path, monkeypatch):
    """Twice the scale after 2000 good steps; half of it after one that overflows."""
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    calls = []

    def small(model, batch):
        calls.append(1)
        return squared(model, batch) * (1e30 if len(calls) == 2053 else 1e-6)

    trainer = Trainer(
        Product(),
        TensorDataset(torch.ones(8, 1), torch.ones(8, 1)),
        small,
        stack=Stack.of("precision(dtype=fp16,mode=master)"),
        optimizer=lambda parameters, *, lr: torch.optim.SGD(parameters, lr=lr),
        samples=2100,
        batch_size=1,
        lr=0.0,
        quiet=True,
        classify=False,
    )
    calls.clear()
    scales = RunReader(trainer.fit().run).values(0)["loss_scale"][1]
    assert set(scales[:1999]) == {FIRST_SCALE}
    assert set(scales[1999:2052]) == {2 * FIRST_SCALE}
    assert set(scales[2052:]) == {FIRST_SCALE}
