"""The opt-in rest that breaks a lock between the step and the meter."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import probe
from probe.errors import UsageError
from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")


def train(model, optimizer, steps: int) -> None:
    for _ in range(steps):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("share", [1.0, 0.3, None])
def test_rests_before_a_share_of_the_steps_as_its_own_phase(tmp_path: Path, share) -> None:
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    random.seed(0)
    before = random.getstate()
    with watched(tmp_path, model, optimizer, dither=share) as run:
        train(model, optimizer, 60)
    assert random.getstate() == before  # the user's numbers are the user's
    assert run.steps == 60
    rests = run.counts.get("dither", 0)
    if share is None:
        assert rests == 0
        return
    assert rests == 59 if share == 1.0 else 5 <= rests <= 35
    code = next(c for c in set(run.spans.code.tolist()) if c >= 64)
    length = (run.spans.end_ns - run.spans.begin_ns)[run.spans.code == code] / 1e9
    assert length.min() >= 0 and length.max() < 0.06
    # Uniform up to 20 ms: five standard errors, and what a busy machine sleeps too long.
    assert 0.010 - 5 * 0.0058 / rests**0.5 < length.mean() < 0.016 + 5 * 0.0058 / rests**0.5


@pytest.mark.parametrize("wrong", [1.5, -0.1, "often"])
def test_what_is_no_share_is_said_in_one_line(wrong) -> None:
    with pytest.raises(UsageError, match="share of steps"):
        probe.watch(dither=wrong)
