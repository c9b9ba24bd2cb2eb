"""Modules of a root's class that are first called when the search for roots is over."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from probe.instrument.root_module import living_modules  # noqa: E402
from tests.fakes.phase_recording import watched  # noqa: E402

STEPS = 10


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))


def train(trained: nn.Module, steps: int = STEPS) -> None:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    for _ in range(steps):
        trained(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_copy_is_heard_each_time_and_as_an_evaluation(tmp_path: Path) -> None:
    trained = model()
    average = copy.deepcopy(trained).eval()
    with watched(tmp_path) as run:
        for _ in range(2):
            train(trained)
            with torch.no_grad():
                for _ in range(3):
                    average(torch.randn(2, 4))
    assert run.counts["eval"] == 2 * 3 and run.counts["forward"] == 2 * STEPS
    assert "inference" not in run.counts


def test_a_module_without_parameters_is_looked_into_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transforms of images, which are called for each sample."""
    asked: list[Any] = []
    has_parameters = living_modules.has_parameters
    monkeypatch.setattr(
        living_modules, "has_parameters", lambda m: asked.append(m) or has_parameters(m)
    )
    trained, transform = model(), nn.Sequential(nn.ReLU(), nn.Flatten())
    with watched(tmp_path) as run:
        train(trained)
        asked.clear()
        for _ in range(100):
            transform(torch.randn(2, 4))
    assert asked == [transform]
    assert run.counts["forward"] == STEPS


def test_a_model_that_makes_its_layers_in_its_first_call_is_heard(tmp_path: Path) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer: nn.Linear | None = None

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            if self.layer is None:
                self.layer = nn.Linear(4, 1)
            return self.layer(rows)

    late = Late()
    with watched(tmp_path) as run:
        late(torch.randn(2, 4))
        train(late)
    assert run.counts["forward"] >= STEPS
