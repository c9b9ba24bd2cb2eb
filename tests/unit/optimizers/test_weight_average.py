"""The averaged weights against sums in float64, and against torch's own AveragedModel."""

from __future__ import annotations

import copy
import itertools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import UsageError  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.ema import WeightAverage  # noqa: E402
from optimizers.training.data import Order  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402

from .models import CLASSES, WIDTH, loss, samples, stacked  # noqa: E402

SAMPLES, BATCH = 960, 32
STEPS = SAMPLES // BATCH


pytestmark = pytest.mark.usefixtures("one_thread")


def normed():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES)
    )


def flat(tensors):
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def trainer_of(model, stack, **more):
    options = {"samples": SAMPLES, "batch_size": BATCH, "lr": 0.01, "quiet": True}
    return Trainer(
        model, samples(256), loss, stack=Stack.of(stack), classify=False, **options | more
    )


def noting(trainer):
    """The weights that the optimizer has after each step, and the samples consumed by then."""
    weights, consumed = [], []
    before = trainer._step

    def step(run):
        value = before(run)
        weights.append(flat(trainer.engine._stepped))
        consumed.append(trainer._at.samples)
        return value

    trainer._step = step
    return weights, consumed


@pytest.mark.parametrize(
    "also", ["", ",accumulation(mode=grow,adaptive=true,k=2,k_max=3,target=0.001)"]
)
def test_the_exponential_average_is_the_weighted_sum_of_all_steps(also):
    """Each step counts by the samples that followed it, however many a step had."""
    trainer = trainer_of(stacked(), f"ema(half_life=0.1){also}")
    weights, consumed = noting(trainer)
    if also:
        before = trainer._train

        def train(run, bar):
            trainer._policy.saw = lambda *_: setattr(trainer._policy, "k", 1 + trainer._at.step % 3)
            return before(run, bar)

        trainer._train = train
    trainer.fit()
    gaps = {b - a for a, b in itertools.pairwise(consumed)}
    assert len(gaps) == (3 if also else 1), "k changes in the second case only"
    left = [2.0 ** (-(consumed[-1] - at) / (0.1 * SAMPLES)) for at in consumed]
    shares = [left[0], *(b - a for a, b in itertools.pairwise(left))]
    assert sum(shares) == pytest.approx(1.0)
    truth = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    assert torch.allclose(flat(trainer.engine.module.parameters()), truth, rtol=0, atol=1e-6)
    assert not torch.allclose(weights[-1], truth, rtol=0, atol=1e-4)


def test_the_equal_average_is_the_mean_of_the_steps_after_its_start():
    trainer = trainer_of(stacked(), "ema(mode=equal,start=0.7)")
    weights, consumed = noting(trainer)
    trainer.fit()
    tail = [w for w, at in zip(weights, consumed, strict=True) if at > 0.7 * SAMPLES]
    assert len(tail) == 9
    truth = torch.stack(tail).mean(0)
    assert torch.allclose(flat(trainer.engine.module.parameters()), truth, rtol=0, atol=1e-6)


def test_it_is_torchs_averaged_model_of_a_loop_written_by_hand():
    """Bit for bit, running statistics of norms as well."""
    model = normed()
    hand = copy.deepcopy(model)
    averaged = AveragedModel(
        hand, multi_avg_fn=get_ema_multi_avg_fn(2 ** (-BATCH / SAMPLES / 0.1)), use_buffers=True
    )
    trainer_of(model, "ema(half_life=0.1)", seed=3).fit()
    order, data = iter(Order(256, BATCH, rank=0, world=1, seed=3)), samples(256)
    optimizer = torch.optim.AdamW(hand.parameters(), lr=0.01, betas=(0.9, 0.999), weight_decay=0.01)
    for _ in range(STEPS):
        loss(hand, data[next(order)]).backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update_parameters(hand)
    for ours, theirs in zip(model.parameters(), averaged.module.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(model[1].running_mean, averaged.module[1].running_mean)
    assert torch.equal(model[1].running_var, averaged.module[1].running_var)
    assert model[1].num_batches_tracked == STEPS, "a count is not averaged"


@pytest.mark.parametrize("stack", ["", "precision(dtype=bf16,mode=master)"])
def test_evaluations_see_the_average_and_steps_do_not(stack):
    """The losses are those without it, bit for bit, with evaluations in between."""
    seen = {}
    for name in ("ema(half_life=0.1)", ""):
        seen[name] = losses_and_evaluated(",".join(filter(None, (name, stack))) or "baseline")
    (losses, evaluated, stepped), (losses_without, evaluated_without, _) = seen.values()
    assert losses == losses_without and len(losses) == STEPS
    assert len(evaluated) == len(stepped) == len(evaluated_without) == SAMPLES // 96
    for shown, own, without in zip(evaluated, stepped, evaluated_without, strict=True):
        assert torch.equal(own, without) and not torch.equal(shown, own)


def losses_and_evaluated(stack):
    """Losses of all steps; at evaluations what was evaluated, and what the steps had made."""
    losses, evaluated, stepped, model = [], [], [], normed()

    def noted(model, batch):
        value = loss(model, batch)
        losses.append(value.item())
        return value

    def evaluate(shown):
        assert shown is model and not model.training
        evaluated.append(flat(model.parameters()))
        return {"norm": float(evaluated[-1].norm())}

    trainer = Trainer(
        model,
        samples(256),
        noted,
        stack=Stack.of(stack),
        samples=SAMPLES,
        batch_size=BATCH,
        lr=0.01,
        evaluate=evaluate,
        eval_every=96,
        quiet=True,
    )
    losses.clear()  # operations were counted
    before = trainer._step

    def step(run):
        value = before(run)
        if trainer._at.samples % 96 == 0:
            stepped.append(flat(model.parameters()))
        return value

    trainer._step = step
    result = trainer.fit()
    assert result.steps == STEPS == trainer.report().run.steps, "an average is no step"
    return losses, evaluated, stepped


def test_half_precision_weights_are_averaged_in_fp32():
    """A step of bf16 weights is lost in their rounding, one of their copies is not."""
    trainer = trainer_of(stacked(), "ema(half_life=0.5),precision(dtype=bf16,mode=master)")
    weights, consumed = noting(trainer)
    trainer.fit()
    left = [2.0 ** (-(consumed[-1] - at) / (0.5 * SAMPLES)) for at in consumed]
    shares = [left[0], *(b - a for a, b in itertools.pairwise(left))]
    truth = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    assert all(p.dtype == torch.bfloat16 for p in trainer.engine.module.parameters())
    assert (
        torch.equal(flat(trainer.engine.module.parameters()), truth.bfloat16().double())
        or (
            (flat(trainer.engine.module.parameters()) - truth).abs() <= 2**-8 * truth.abs() + 1e-7
        ).all()
    ), "no further off than one rounding"


def test_before_its_start_the_model_is_evaluated_and_kept_as_it_is():
    model, seen = stacked(), []
    trainer = trainer_of(
        model,
        "ema(start=0.99)",
        samples=SAMPLES + 16,  # no step ends after the start
        evaluate=lambda shown: seen.append(flat(shown.parameters())) or {"x": 0.0},
        eval_every=SAMPLES,
    )
    weights, _ = noting(trainer)
    trainer.fit()
    assert torch.equal(seen[-1], weights[-1]) and torch.equal(flat(model.parameters()), weights[-1])


def test_a_snapshot_without_an_average_is_refused_in_a_line(tmp_path):
    folder = tmp_path / "snapshots"
    trainer_of(stacked(), "baseline", snapshots=folder, snapshot_every=4).fit()
    with pytest.raises(UsageError, match="ema: the snapshot holds no average") as refused:
        trainer_of(stacked(), "ema", snapshots=folder).fit(resume=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("technique", "plan", "line"),
    [
        (WeightAverage(mode="tail"), Plan(), "mode='tail'"),
        (WeightAverage(start=1.0), Plan(), "start=1.0: a share"),
        (WeightAverage(half_life=0.0), Plan(), "half_life=0.0: a share"),
        (
            WeightAverage(mode="equal", half_life=0.1),
            Plan(),
            "half_life=0.1 is of mode=exponential",
        ),
        (WeightAverage(), Plan(world=2, zero_stage=3), "ema does not go with zero stage 3"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_line(technique, plan, line):
    assert line in refusal(technique, plan)


def test_two_ways_to_write_a_default_are_one_stack():
    assert Stack.of("ema(start=0,half_life=0.02)").name == Stack.of("ema").name == "ema"
    assert Stack.of("ema(mode=equal,start=0.8)").name == "ema:mode=equal"
    claims = {
        "ema": "a half-life of 0.02 of the samples",
        "ema(mode=equal)": "all weights after 80% of the samples",
        "ema(mode=equal,start=0)": "all weights after 0% of the samples",
    }
    for text, claim in claims.items():
        assert claim in Stack.of(text).table(Plan(batch_size=8))
        assert Stack.of(Stack.of(text).name).techniques == Stack.of(text).techniques


def test_a_plan_without_it_keeps_no_average():
    assert trainer_of(stacked(), "baseline").engine.average is None
