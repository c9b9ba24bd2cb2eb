"""Exceptions of the user pass through."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402

from tests.fakes.phase_recording import Watched, watched  # noqa: E402
from tests.fakes.training_loop import LOSS, N, Net  # noqa: E402


@pytest.mark.parametrize("where", ["data", "forward", "backward", "optimizer", "phase"])
@pytest.mark.parametrize("caught", [True, False])
def test_exceptions(tmp_path: Path, where: str, caught: bool) -> None:
    """The user's exception passes through unchanged; training may go on after it."""

    class Trouble(Exception):
        pass

    armed = [False]

    def trouble(place: str) -> None:
        if armed[0] and place == where:
            armed[0] = False
            raise Trouble(place)

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(_ctx: Any, grad: Any) -> Any:
            trouble("backward")
            return grad

    class Fragile(Net):
        def forward(self, x: Any) -> Any:
            trouble("forward")
            return Noisy.apply(super().forward(x))

    class Data(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, _i: int) -> Any:
            trouble("data")
            return torch.randn(64), 1

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            trouble("optimizer")
            super().step(closure)

    model = Fragile()
    optimizer = Optimizer(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Data(), batch_size=2))

    def step(run: Watched) -> None:
        with run.engine.phase("wrap") if where == "phase" else contextlib.nullcontext():
            trouble("phase")
        x, y = next(batches)
        LOSS(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    def all_steps(run: Watched) -> None:
        for i in range(N):
            armed[0] = i == 2
            if caught:
                try:
                    step(run)
                except Trouble as error:
                    assert str(error) == where
                    assert error.__context__ is None
                    optimizer.zero_grad()
            else:
                step(run)

    if caught:
        with watched(tmp_path, model) as run:
            all_steps(run)
        assert run.steps == N - 1 or where == "optimizer"
        assert run.counts["forward"] >= N - 2
        assert run.sequence()[-1] == "other"
    else:
        with pytest.raises(Trouble, match=where), watched(tmp_path, model, failed=True) as run:
            all_steps(run)
    assert "__call__" not in vars(Fragile)
