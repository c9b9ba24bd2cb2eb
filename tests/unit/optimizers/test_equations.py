"""Each equation against a computation that shares no code with it."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.plan import Accumulation, Plan  # noqa: E402
from optimizers.techniques.accumulation import GradientAccumulation, KPolicy, pieces  # noqa: E402
from optimizers.techniques.clipping import Clipping  # noqa: E402
from optimizers.techniques.schedule import WarmupCosine  # noqa: E402
from optimizers.training.data import Order  # noqa: E402
from optimizers.training.variance import GradientVariance  # noqa: E402

from .models import loss, samples, stacked, two_pass  # noqa: E402


def sgd(parameters, *, lr, **_):
    return torch.optim.SGD(parameters, lr=lr)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_the_variance_is_that_of_all_gradients_kept(k, scale):
    model = stacked()
    data = samples(24 * k).tensors
    batches = pieces(data, k)
    meter = GradientVariance(model.parameters())
    meter.arm()
    for batch in batches:
        (loss(model, batch) / k * scale).backward()
        meter.micro_batch(1 / k, scale / k)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).double().norm() / scale
    measured = meter.result(float(norm))
    meter.close()
    model.zero_grad()
    assert measured == pytest.approx(two_pass(model, batches), rel=1e-5)


def test_the_variance_of_pieces_of_unequal_size_is_weighted_by_samples():
    model, data = stacked(), samples(23).tensors
    batches = pieces(data, 4)  # 6, 6, 6, 5
    share = [len(b[0]) / 23 for b in batches]
    gradients = []
    for batch in batches:
        gradient = torch.autograd.grad(loss(model, batch), list(model.parameters()))
        gradients.append(torch.cat([g.flatten().double() for g in gradient]))
    meter = GradientVariance(model.parameters())
    meter.arm()
    for batch, part in zip(batches, share, strict=True):
        (loss(model, batch) * part).backward()
        meter.micro_batch(part, part)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).double().norm()
    mean = sum(w * g for w, g in zip(share, gradients, strict=True))
    truth = 4 / 3 * sum(w * ((g - mean) ** 2).sum() for w, g in zip(share, gradients, strict=True))
    assert meter.result(float(norm)) == pytest.approx(float(truth), rel=1e-5)


def test_one_gradient_and_one_that_is_not_finite_have_no_variance():
    model, data = stacked(), samples(8).tensors
    meter = GradientVariance(model.parameters())
    meter.arm()
    loss(model, data).backward()
    meter.micro_batch(1.0, 1.0)
    assert meter.result(1.0) is None
    meter.arm()
    for _ in range(2):
        (loss(model, data) * math.inf).backward()
        meter.micro_batch(0.5, 0.5)
    assert meter.result(1.0) is None


def test_k_follows_the_variance_by_equation_6():
    policy = KPolicy(Accumulation(k=2, mode="grow", adaptive=True, k_max=8, target=3.0), ranks=1)
    for variance, k in ((3.0, 1), (3.1, 2), (9.0, 3), (100.0, 8)):
        policy.variance = None  # no smoothing between the cases
        policy.saw(variance, 1.0)
        assert policy.k == k == min(8, math.ceil(variance / 3.0))


def test_splitting_finer_does_not_by_itself_ask_for_finer_pieces():
    """The variance of a micro-batch grows with k; referred to the whole batch it does not."""
    policy = KPolicy(Accumulation(k=4, mode="split", adaptive=True, k_max=64, target=1.0), ranks=1)
    per_batch = 4.0
    for _ in range(50):
        policy.saw(per_batch * policy.k, 1 / policy.k)
    assert policy.k == 4


def test_with_one_micro_batch_on_one_rank_the_variance_is_looked_at_again():
    policy = KPolicy(Accumulation(k=2, mode="grow", adaptive=True, k_max=8, target=5.0), ranks=1)
    policy.saw(1.0, 1.0)
    assert policy.k == 1
    seen = []
    for _ in range(12):
        policy.saw(None, 1.0)
        seen.append(policy.k)
    assert 2 in seen


def test_the_target_is_calibrated_so_that_the_wanted_k_is_kept():
    policy = KPolicy(Accumulation(k=4, mode="grow", adaptive=True, k_max=8), ranks=1)
    for _ in range(12):
        policy.saw(8.0, 1.0)
    assert policy.target == pytest.approx(2.0)
    assert policy.k == 4


class Recorded(torch.optim.SGD):
    """Notes the rate of each step."""

    rates: list[float]

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


@pytest.mark.parametrize("scaling", ["none", "linear", "sqrt"])
def test_the_rate_is_the_closed_form_of_samples_while_k_changes(scaling):
    made = []

    def make(parameters, *, lr):
        optimizer = Recorded(parameters, lr=lr)
        optimizer.rates = []
        made.append(optimizer)
        return optimizer

    stack = Stack(
        [
            GradientAccumulation(k=2, mode="grow", adaptive=True, k_max=4, target=1e-3),
            WarmupCosine(warmup=0.1, floor=0.1, scaling=scaling),
        ]
    )
    budget, batch, eta = 2000, 10, 0.01
    trainer = Trainer(
        stacked(),
        samples(400),
        loss,
        stack=stack,
        samples=budget,
        batch_size=batch,
        lr=eta,
        optimizer=make,
        quiet=True,
    )
    steps, before = [], trainer._step

    def noted(run):
        steps.append(trainer._samples_of_step())
        if len(steps) % 7 == 0:
            trainer._policy.k = 1 + len(steps) % 4  # whatever the variance says
            steps[-1] = trainer._samples_of_step()
        return before(run)

    trainer._step = noted
    trainer.fit()
    assert len(set(steps)) > 2, "k never changed"
    done = 0
    for count, rate in zip(steps, made[0].rates, strict=True):
        done += count
        x = done / budget
        warm = x / 0.1
        cosine = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (x - 0.1) / 0.9))
        grown = {"none": 1.0, "linear": count / batch, "sqrt": math.sqrt(count / batch)}[scaling]
        assert rate == pytest.approx(eta * grown * (warm if x < 0.1 else cosine), rel=1e-12)


def test_weights_after_a_variable_k_are_those_of_one_big_batch():
    figures = {}
    for name, stack in {
        "whole": Stack.baseline(),
        "pieces": Stack([GradientAccumulation(k=3, adaptive=True, k_max=6, target=0.02)]),
    }.items():
        model = stacked()
        trainer = Trainer(
            model,
            samples(256),
            loss,
            stack=stack,
            samples=1024,
            batch_size=32,
            lr=0.05,
            optimizer=sgd,
            quiet=True,
        )
        ks, before = set(), trainer._step
        trainer._step = lambda run, t=trainer, ks=ks, b=before: (ks.add(t._policy.k), b(run))[1]
        trainer.fit()
        figures[name] = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert len(ks) > 1, "k never changed"
    assert torch.allclose(figures["whole"], figures["pieces"], rtol=0, atol=1e-6)


def test_clipping_scales_the_whole_gradient_to_the_norm():
    model, reference = stacked(), stacked()
    data = samples(64)
    Trainer(
        model,
        data,
        loss,
        stack=Stack([Clipping(0.01)]),
        samples=64,
        batch_size=64,
        lr=1.0,
        optimizer=sgd,
        quiet=True,
    ).fit()
    loss(reference, data.tensors).backward()  # one batch is the whole set, in any order
    with torch.no_grad():
        norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in reference.parameters()))
        assert norm > 0.01
        for p in reference.parameters():
            p -= p.grad * (0.01 / norm)
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_baseline_losses_are_bit_identical_to_a_hand_written_loop():
    data = samples(256)
    model = stacked(dropout=0.1)
    hand = copy.deepcopy(model)
    torch.manual_seed(5)
    seen: list[float] = []

    def noting(model, batch):
        value = loss(model, batch)
        seen.append(value.item())
        return value

    trainer = Trainer(model, data, noting, samples=640, batch_size=32, lr=1e-2, quiet=True, seed=3)
    seen.clear()  # operations were counted
    trainer.fit()
    order = iter(Order(256, 32, rank=0, world=1, seed=3))
    torch.manual_seed(5)
    optimizer = torch.optim.AdamW(hand.parameters(), lr=1e-2, betas=(0.9, 0.999), weight_decay=0.01)
    losses = []
    hand.train()
    for _ in range(20):
        x, y = data[next(order)]
        value = torch.nn.functional.cross_entropy(hand(x).float(), y)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    assert seen == losses
    for a, b in zip(model.parameters(), hand.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_plan_is_not_changed_by_planning():
    given = Plan(batch_size=64)
    Stack.paper().plan(given)
    assert given == Plan(batch_size=64)
