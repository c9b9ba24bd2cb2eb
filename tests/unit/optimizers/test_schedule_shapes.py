"""The rate of each shape against points worked out by hand, and against torch's schedulers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack  # noqa: E402
from optimizers.plan import Plan, Schedule  # noqa: E402
from optimizers.stack import settings  # noqa: E402
from optimizers.techniques.schedule import WarmupCosine, rate  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402


def rates(text: str, shares: list[float]) -> list[float]:
    schedule = Stack.of(text).plan(Plan(batch_size=8)).schedule
    return [rate(schedule, share, 8, 8) for share in shares]


@pytest.mark.parametrize(
    ("text", "points"),
    [
        # floor 0, no warm-up: the formulas themselves, in exact fractions
        ("schedule(shape=linear,warmup=0,floor=0)", {0.25: Fraction(3, 4), 1: Fraction(0)}),
        (
            "schedule(shape=rex,warmup=0,floor=0)",
            {0.25: Fraction(6, 7), 0.5: Fraction(2, 3), 0.75: Fraction(2, 5), 1: Fraction(0)},
        ),
        (
            "schedule(shape=wsd,warmup=0,floor=0,decay=0.5)",
            {0.3: 1, 0.5: 1, 0.625: Fraction(1, 2), 0.78125: Fraction(1, 4), 1: Fraction(0)},
        ),
        # a warm-up and a floor: each shape over what is left of the samples and of the rate
        (
            "schedule(shape=linear,warmup=0.2,floor=0.1)",
            {0.1: Fraction(1, 2), 0.2: 1, 0.6: Fraction(11, 20), 1: Fraction(1, 10)},
        ),
        (
            "schedule(shape=rex,warmup=0.2,floor=0.1)",
            {0.1: Fraction(1, 2), 0.2: 1, 0.6: Fraction(7, 10), 1: Fraction(1, 10)},
        ),
        (
            "schedule(shape=wsd,warmup=0.2,floor=0.1)",
            {0.1: Fraction(1, 2), 0.2: 1, 0.8: 1, 0.85: Fraction(11, 20), 1: Fraction(1, 10)},
        ),
    ],
)
def test_a_shape_goes_through_the_points_of_its_formula(text, points):
    assert rates(text, [*points]) == pytest.approx([float(y) for y in points.values()], rel=1e-12)


def test_linear_and_cosine_are_torchs_schedulers():
    steps = 40
    for shape, make in (
        ("linear", lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=steps)),
        ("cosine", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, steps, eta_min=0.1)),
    ):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        scheduler, theirs = make(optimizer), []
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
            theirs.append(optimizer.param_groups[0]["lr"])
        ours = rates(f"schedule(shape={shape},warmup=0)", [(i + 1) / steps for i in range(steps)])
        assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("shape", ["cosine", "linear", "wsd", "rex"])
def test_a_rate_never_rises_after_the_warm_up_and_ends_at_the_floor(shape):
    shares = [i / 1000 for i in range(1001)]
    values = rates(f"schedule(shape={shape})", shares)
    after = [value for share, value in zip(shares, values, strict=True) if share >= 0.05]
    assert after[0] == pytest.approx(1.0, rel=1e-12)
    assert all(a >= b for a, b in itertools.pairwise(after))
    assert after[-1] == pytest.approx(0.1, rel=1e-12)
    assert rates(f"schedule(shape={shape})", [1.5]) == [after[-1]], "past the budget"


def test_without_the_option_nothing_is_written_of_it():
    """Runs of the paper's schedule keep their names and settings."""
    for text in ("schedule", "schedule(shape=cosine)"):
        stack = Stack.of(text)
        assert stack.name == "schedule"
        assert settings(stack.techniques[0]) == "warmup=0.05 floor=0.1 scaling=none"
        assert stack.plan(Plan()).schedule == Schedule(0.05, 0.1, "none")
    share = 0.37
    cosine = 0.1 + (1 - 0.1) * (1 + math.cos(math.pi * ((share - 0.05) / (1 - 0.05)))) / 2
    assert rates("schedule", [share]) == [cosine], "bit for bit"


def test_a_shape_is_read_back_from_the_name():
    for text in ("schedule(shape=wsd,decay=0.4)", "schedule(shape=rex,floor=0)", "paper"):
        stack = Stack.of(text)
        assert Stack.of(stack.name).techniques == stack.techniques
    assert Stack.of("schedule(shape=wsd)").name == "schedule:shape=wsd:decay=0.2"
    paper = Stack.of("paper,schedule(shape=linear)")
    assert "another schedule" in paper.table(Plan(batch_size=64))


@pytest.mark.parametrize(
    ("technique", "line"),
    [
        (WarmupCosine(shape="step"), "shape='step': cosine, linear, wsd, rex"),
        (WarmupCosine(decay=0.2), "decay=0.2 is of shape=wsd; a cosine"),
        (WarmupCosine(shape="rex", decay=0.2), "decay=0.2 is of shape=wsd; a rex"),
        (WarmupCosine(shape="wsd", decay=0.0), "decay=0.0: a share above 0"),
        (WarmupCosine(warmup=0.5, shape="wsd", decay=0.6), "that warmup=0.5 leaves"),
    ],
)
def test_a_shape_or_decay_that_cannot_be_is_refused_in_a_line(technique, line):
    assert line in refusal(technique)
