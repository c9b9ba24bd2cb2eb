"""``checkpointing(budget=…)`` on two real models: bytes as predicted, training as without."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.analysis.checkpoint_plan import measure, place  # noqa: E402
from optimizers.analysis.segments import METHODS  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from probe.report.formats import render  # noqa: E402
from probe.report.numbers import duration  # noqa: E402
from tests.fakes.selection import rows_one_in  # noqa: E402
from tests.scripts.place_checkpoints import (  # noqa: E402
    MODELS,
    changed,
    cross_entropy,
    measured_peak,
)

BATCH, STEPS = 4, 4


@pytest.mark.parametrize("name", MODELS)
def test_bytes_of_every_plan_are_as_predicted(name):
    build, data = MODELS[name]
    model, batch = build().train(), data()
    plain = place(model, cross_entropy, batch, 1 << 40)
    assert plain.bytes == pytest.approx(measured_peak(model, batch), rel=0.02)
    measured = measure(model, cross_entropy, batch)
    numbers = set()
    for share in (0.9, 0.75, 0.6, 0.5):
        seconds = {}
        for method in METHODS:
            placement = measured.every(share * plain.bytes)[method]
            if placement is None:
                continue
            live = measured_peak(changed(model, placement), batch)
            assert placement.bytes == pytest.approx(live, rel=0.1), (share, method)
            assert live <= 1.02 * share * plain.bytes, (share, method)
            seconds[method] = placement.seconds
            numbers.add(len(placement.blocks))
        assert seconds["optimal"] == min(seconds.values())
    assert len(numbers) > 1  # the budgets ask for different plans


@pytest.mark.parametrize(
    ("method", "name"), rows_one_in(3, [(method, name) for method in METHODS for name in MODELS])
)
def test_losses_are_bit_by_bit_those_without_checkpointing(name, method):
    build, data = MODELS[name]
    batch = data(BATCH)
    model = build().train()
    highest = place(model, cross_entropy, batch, 1 << 40).bytes
    stack = f"checkpointing(budget={round(0.7 * highest)}B,placement={method})"
    losses, weights = [], []
    for text in ("", stack):
        seen = []

        def watched(model, batch, seen=seen):
            value = cross_entropy(model, batch)
            seen.append(value.detach())
            return value

        torch.manual_seed(5)
        trainer = Trainer(
            build(),
            TensorDataset(*data(BATCH * STEPS)),
            watched,
            stack=Stack.of(text) if text else None,
            samples=BATCH * STEPS,
            batch_size=BATCH,
            device="cpu",
            quiet=True,
        )
        if text:
            chosen = [line for line in trainer.table.splitlines() if "→" in line]
            assert any(method in line and "again: 1." in line for line in chosen), trainer.table
            assert all(f" {other} " in trainer.table for other in METHODS)
            assert "no schedule adds less than" in trainer.table
        seen.clear()  # of measuring
        trainer.fit()
        losses.append([value.item() for value in seen])
        weights.append(trainer.engine.module.state_dict())
    assert len(losses[0]) == STEPS and losses[0] == losses[1]
    assert len(set(losses[0])) == STEPS
    for key, value in weights[0].items():
        assert torch.equal(value, weights[1][key]), key


def test_what_a_placement_is_predicted_to_take_stands_beside_what_it_took(tmp_path):
    build, data = MODELS["transformer"]
    size, k, steps = 16, 2, 12
    highest = place(build().train(), cross_entropy, data(size // k), 1 << 40).bytes
    trainer = Trainer(
        build(),
        TensorDataset(*data(size)),
        cross_entropy,
        stack=Stack.of(f"accumulation(k={k}),checkpointing(budget={round(0.6 * highest)}B)"),
        samples=size * steps,
        batch_size=size,
        device="cpu",
        dir=tmp_path,
        quiet=True,
    )
    result = trainer.fit()
    report = trainer.report()
    stored = json.loads((result.run / "run.json").read_text())["config"]["placement"]
    again = [name for segment in stored["again"] for name in segment]
    predicted = k * sum(stored["forward_s"][name] for name in again)
    assert 0 < len(again) < len(stored["forward_s"]) == 8
    assert stored["again_s_per_step"] == pytest.approx(predicted)
    assert report.values["recompute_predicted_s"].last == pytest.approx(predicted)
    (chosen,) = [line for line in trainer.table.splitlines() if "→" in line]
    assert f"{1e3 * predicted:.1f} ms a step" in chosen
    # Each dropped segment runs again at every micro-batch.
    rows = [row for row in report.phases if row.phase == "recompute"]
    assert rows and all(row.count == len(stored["again"]) * k * steps for row in rows)
    took = rows[0].time_s / steps
    assert took > 0 and predicted > 0  # how close they are depends on the load
    line = f"{duration(took)} a step, predicted {duration(predicted)}"
    for form in ("text", "md", "html"):
        assert line in " ".join(render(report, form).split()), form


@pytest.mark.parametrize("name", MODELS)
def test_measuring_leaves_the_model_and_the_random_state_as_they_were(name):
    build, data = MODELS[name]
    model, batch = build().train(), data(BATCH)
    cross_entropy(model, batch).backward()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    gradients = [p.grad.clone() for p in model.parameters()]
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    measure(model, cross_entropy, batch)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all() and states[2] == random.getstate()
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(p.grad, gradient)


def test_a_budget_that_nothing_fits_names_the_least_bytes():
    build, data = MODELS["cnn"]
    model, batch = build().train(), data(BATCH)
    measured = measure(model, cross_entropy, batch)
    with pytest.raises(TechniqueRefused, match="the least possible is") as refused:
        measured.place(1000)
    line = str(refused.value)
    assert "\n" not in line
    lowest = int(line.partition("(")[2].partition(" bytes")[0])
    assert measured.place(lowest + 1).bytes <= lowest + 1
    with pytest.raises(TechniqueRefused):
        measured.place(lowest - 1)


def test_layers_that_run_twice_cannot_be_planned():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4)) for _ in range(3))

        def forward(self, x):
            for block in (*self.blocks, *self.blocks):
                x = block(x)
            return x

    with pytest.raises(TechniqueRefused, match="do not run once each"):
        measure(Twice(), lambda model, batch: model(batch).sum(), torch.randn(2, 4))
