"""Eq. (9): what is measured, when a k is chosen, and that the training does not notice."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.analysis.best_k import Trial, best_k, choose  # noqa: E402
from optimizers.errors import TechniqueRefused, UsageError  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.accumulation import GradientAccumulation  # noqa: E402
from optimizers.training import trainer as trainer_module  # noqa: E402

from .models import CLASSES, WIDTH, Block, loss, samples  # noqa: E402

KS = (1, 2, 4, 8, 16)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    yield
    torch.set_num_threads(before)


def trials(rng, gains, rounds=10, memory=None):
    """Rounds of one machine: a drift that all share, noise with a heavy tail of each."""
    drift = np.cumsum(rng.normal(0, 0.05, rounds))
    return [
        Trial(
            k,
            64,
            tuple(np.exp(drift - gain + 0.03 * rng.standard_t(4, rounds))),
            (memory or {}).get(k, 1000),
            2000,
        )
        for k, gain in zip(KS, gains, strict=True)
    ]


def by_p_values(compared):
    """The same question put to another implementation: p-values of scipy's paired test."""
    rate = {t.k: 64 / np.array(t.seconds) / (t.activation_bytes + t.fixed_bytes) for t in compared}
    best = max(rate, key=lambda k: stats.gmean(rate[k]))
    for k in KS[: KS.index(best)]:
        test = stats.ttest_rel(np.log(rate[best]), np.log(rate[k]), alternative="greater")
        if test.pvalue >= 0.05 / (len(KS) - 1):
            return k
    return best


def test_the_rule_is_that_of_p_values():
    rng = np.random.default_rng(1)
    chosen = []
    for _ in range(300):
        gains = rng.normal(0, 0.03, len(KS))
        blocks = trials(rng, gains)
        chosen.append(choose(blocks).k)
        assert chosen[-1] == by_p_values(blocks)
    assert set(chosen) >= {1, 2, 4, 8}, "every outcome was met"


def test_where_nothing_differs_a_larger_k_is_chosen_in_five_of_a_hundred_at_most():
    rng = np.random.default_rng(2)
    wrong = sum(choose(trials(rng, [0.0] * len(KS))).k != 1 for _ in range(2000))
    assert wrong / 2000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    kept = choose(trials(rng, [0.0] * len(KS)))
    assert kept.k == 1 and ("bear out" in kept.reason or "no larger k" in kept.reason)


def test_a_real_difference_is_found():
    rng = np.random.default_rng(3)
    chosen = [choose(trials(rng, [0.0, 0.1, 0.25, 0.1, 0.0])) for _ in range(300)]
    assert sum(choice.k == 4 for choice in chosen) >= 0.98 * 300
    # As fast as before in half the memory is worth twice as much.
    halved = trials(rng, [0.0] * len(KS), memory={16: -500})
    assert choose(halved).k == 16
    assert "worth more than every smaller k" in choose(halved).reason


def test_intervals_are_those_of_student():
    (trial,) = trials(np.random.default_rng(4), [0.1] * len(KS))[:1]
    worth = np.log(64 / np.array(trial.seconds) / 3000)
    low, high = stats.t.interval(0.95, 9, worth.mean(), stats.sem(worth))
    assert np.log(trial.interval) == pytest.approx([low, high])
    assert np.log(trial.worth) == pytest.approx(worth.mean())


def test_speed_and_memory_are_measured_on_the_model():
    model = nn.Sequential(*(Block(64) for _ in range(6)), nn.Linear(64, 5))
    batch = torch.randn(64, 64), torch.randint(0, 5, (64,))
    choice = best_k(model, loss, batch, (1, 2, 8, 128), rounds=5)
    assert [trial.k for trial in choice.trials] == [1, 2, 8]
    held = [trial.activation_bytes for trial in choice.trials]
    assert held[0] == pytest.approx(2 * held[1], rel=0.05)
    assert held[0] == pytest.approx(8 * held[2], rel=0.1)
    numbers = sum(p.numel() for p in model.parameters())
    assert all(trial.fixed_bytes == 16 * numbers for trial in choice.trials)
    assert all(len(trial.seconds) == 5 for trial in choice.trials)
    assert all(p.grad is None for p in model.parameters())
    lines = choice.table().splitlines()
    assert len(lines) == 5 and lines[-1].startswith(f"  k={choice.k} is used: ")
    with pytest.raises(UsageError, match="cannot be cut"):
        best_k(model, loss, batch, (128,))


class Drawing(torch.utils.data.TensorDataset):
    """Draws at random for every sample, as augmentations do."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + torch.randn(()) + random.random() + np.random.random(), y


def trained(stack: Stack, **more):
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.Sequential(*(Block(dropout=0.2) for _ in range(4))),
        nn.Linear(WIDTH, CLASSES),
    )
    data = Drawing(*samples(128).tensors)
    settings = {"samples": 320, "batch_size": 32, "lr": 1e-2, "quiet": True, "classify": False}
    trainer = Trainer(model, data, loss, stack=stack, **settings | more)
    return trainer, model


@pytest.mark.parametrize("more", ["", ",precision(dtype=bf16),checkpointing"])
def test_a_training_does_not_notice_the_measurement(more):
    trainer, measured = trained(Stack.of(f"accumulation(k=optimal){more}"))
    result = trainer.fit()
    k = trainer._policy.k
    other, given = trained(Stack.of(f"accumulation(k={k}){more}"))
    assert other.fit().losses == result.losses
    for name, value in given.state_dict().items():
        assert torch.equal(value, measured.state_dict()[name]), name
    stored = json.loads((result.run / "run.json").read_text())["config"]["measured_k"]
    assert stored["k"] == k and [row["k"] for row in stored["trials"]] == list(KS)
    assert f"k={k} is used" in trainer.table and "k optimal (9)" in trainer.table


def test_a_resumed_training_does_not_measure_again(tmp_path, monkeypatch):
    more = {"snapshots": tmp_path / "snapshots", "snapshot_every": 2}
    stack = Stack.of("accumulation(k=optimal)")
    first, _ = trained(stack, samples=128, **more)
    picked, true = [], trainer_module.search

    def eight(*given):
        choice = true(*given)
        picked.append(8)
        return replace(choice, k=8)

    monkeypatch.setattr(trainer_module, "search", eight)
    first.fit()
    second, _ = trained(stack, **more)
    result = second.fit(resume=True)
    assert picked == [8] and second._policy.k == 8 and result.steps == 10
    assert json.loads((result.run / "run.json").read_text())["config"]["measured_k"]["k"] == 8


@pytest.mark.parametrize("more", [{"mode": "grow"}, {"adaptive": True}])
def test_an_optimal_k_is_one_k_of_pieces(more):
    with pytest.raises(TechniqueRefused, match="k=optimal goes with mode=split"):
        Stack([GradientAccumulation(k="optimal", **more)]).plan(Plan(batch_size=32))


def test_a_model_that_cannot_be_copied_is_refused_in_one_line():
    model = nn.Linear(WIDTH, CLASSES)
    model.lock = (part for part in ())  # what no copy can be made of
    with pytest.raises(TechniqueRefused, match="cannot be copied") as refused:
        Trainer(
            model, samples(64), loss, stack=Stack.of("accumulation(k=optimal)"), samples=64,
            quiet=True,
        )  # fmt: skip
    assert "\n" not in str(refused.value)
