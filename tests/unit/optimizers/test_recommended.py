"""Recommended stacks train what they are for; where nothing was measured it is said."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("schedulefree", reason="schedulefree is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import UsageError  # noqa: E402
from optimizers.recommended import STACKS  # noqa: E402

from .models import Mixed, MixedSamples, loss  # noqa: E402


@pytest.mark.parametrize(("device", "kind"), STACKS)
def test_a_recommended_stack_trains(device, kind):
    stack = Stack.recommended(device, kind)
    assert Stack.of(stack.name).name == stack.name
    trainer = Trainer(
        Mixed(), MixedSamples(), loss, stack=stack, samples=128, batch_size=32, quiet=True
    )
    assert math.isfinite(trainer.fit().losses[-1])


@pytest.mark.parametrize(("device", "kind"), [("cuda", "transformer"), ("cpu", "recurrent")])
def test_nothing_is_recommended_that_was_not_measured(device, kind):
    with pytest.raises(UsageError, match=f"no stack was measured for a {kind} model on {device}"):
        Stack.recommended(device, kind)
