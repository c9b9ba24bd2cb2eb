"""Schedule-free steps against the paper's algorithm in float64, and what is evaluated and kept."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("schedulefree", reason="schedulefree is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.techniques.schedule_free import like  # noqa: E402
from optimizers.training.data import Order  # noqa: E402

from .models import loss, samples, stacked  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS, RATE, BETA, BETA2, DECAY, EPS = 20, 0.01, 0.9, 0.999, 0.01, 1e-8


def train(model, stack="schedule_free", **more):
    options = {"samples": 32 * STEPS, "batch_size": 32, "lr": RATE, "quiet": True, "seed": 3}
    trainer = Trainer(
        model, samples(256), loss, stack=Stack.of(stack), classify=False, **options | more
    )
    trainer.fit()
    return trainer


def by_hand(model, rates, *, is_sgd=False):
    """z, x and y of algorithm 1, with Adam's second moment; weights of the average are rate²."""
    model.double()
    z = [p.detach().numpy().copy() for p in model.parameters()]
    x = [value.copy() for value in z]
    second = [np.zeros_like(value) for value in z]
    order, highest, total = iter(Order(256, 32, rank=0, world=1, seed=3)), 0.0, 0.0
    for step, rate in enumerate(rates, 1):
        y = [(1 - BETA) * z_ + BETA * x_ for z_, x_ in zip(z, x, strict=True)]
        for p, value in zip(model.parameters(), y, strict=True):
            p.data.copy_(torch.from_numpy(value))
            p.grad = None
        inputs, labels = samples(256)[next(order)]
        loss(model, (inputs.double(), labels)).backward()
        highest = max(highest, rate)
        total += highest**2
        c = highest**2 / total
        for i, p in enumerate(model.parameters()):
            g = p.grad.numpy()
            if is_sgd:
                direction = g + 0.0 * y[i]
            else:
                second[i] = BETA2 * second[i] + (1 - BETA2) * g * g
                seen = second[i] / (1 - BETA2**step)
                direction = g / (np.sqrt(seen) + EPS) + DECAY * y[i]
            z[i] = z[i] - rate * direction
            x[i] = (1 - c) * x[i] + c * z[i]
    return x


def off(weights, expected):
    """How far weights are from the expected ones, over how far these moved."""
    start = [p.detach().numpy() for p in stacked().parameters()]
    apart = [p.detach().numpy() - x for p, x in zip(weights, expected, strict=True)]
    moved = [x - s for x, s in zip(expected, start, strict=True)]
    length = [np.sqrt(sum((each**2).sum() for each in some)) for some in (apart, moved)]
    return length[0] / length[1]


@pytest.mark.parametrize(
    ("stack", "rates"),
    [
        ("schedule_free", [RATE] * STEPS),  # 5 % of twenty steps is one
        ("schedule_free(warmup=0.5)", [RATE * min(1.0, k / 10) for k in range(1, STEPS + 1)]),
        ("schedule_free(lr=0.03,warmup=0)", [0.03] * STEPS),
    ],
)
def test_the_model_holds_the_papers_average_in_the_end(stack, rates):
    model = stacked()
    train(model, stack)
    assert off(model.parameters(), by_hand(stacked(), rates)) < 1e-3


def test_sgd_has_its_own_form():
    def sgd(parameters, *, lr, **_):
        return torch.optim.SGD(parameters, lr=lr)

    model = stacked()
    train(model, "schedule_free(warmup=0)", optimizer=sgd)
    expected = by_hand(stacked(), [RATE] * STEPS, is_sgd=True)
    assert off(model.parameters(), expected) < 1e-3


def test_an_evaluation_sees_the_average_and_changes_no_step():
    seen = []

    def evaluate(net):
        seen.append([p.detach().clone() for p in net.parameters()])
        return {"accuracy": 0.5}

    looked_at, plain = stacked(), stacked()
    train(looked_at, evaluate=evaluate, eval_every=32 * 5)
    train(plain)
    for p, q in zip(looked_at.parameters(), plain.parameters(), strict=True):
        assert torch.equal(p, q)
    assert off(seen[1], by_hand(stacked(), [RATE] * 10)) < 1e-3


def test_parameter_groups_keep_their_settings():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    users = torch.optim.AdamW(
        [
            {"params": first.parameters(), "weight_decay": 0.0},
            {"params": second.parameters(), "betas": (0.8, 0.9), "eps": 1e-6},
        ],
        lr=0.1,
        weight_decay=0.3,
    )
    kept = [
        (group["weight_decay"], group["betas"], group["eps"], group["lr"])
        for group in like(users, 2.0).param_groups
    ]
    assert kept == [(0.0, (0.9, 0.999), 1e-8, 0.2), (0.3, (0.8, 0.9), 1e-6, 0.2)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda p, lr: torch.optim.RMSprop(p, lr=lr), "no form of RMSprop"),
        (lambda p, lr: torch.optim.AdamW(p, lr=lr, amsgrad=True), "no form of AdamW with amsgrad"),
        (lambda p, lr: torch.optim.AdamW(p, lr=lr, betas=(0.0, 0.9)), "give one above 0"),
        (
            lambda p, lr: torch.optim.Adam(p, lr=lr, weight_decay=0.1),
            "no form of Adam with weight decay in its gradient",
        ),
    ],
)
def test_what_has_no_such_form_is_refused_in_a_line(made, said):
    with pytest.raises(TechniqueRefused, match=said):
        train(stacked(), optimizer=lambda parameters, *, lr, **_: made(parameters, lr))


@pytest.mark.parametrize("options", ["lr=0", "warmup=1"])
def test_settings_that_cannot_be_are_refused(options):
    with pytest.raises(TechniqueRefused, match="schedule_free: "):
        train(stacked(), f"schedule_free({options})")
