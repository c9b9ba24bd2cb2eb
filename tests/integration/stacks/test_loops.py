"""Common training loops, with and without the arguments of watch(): steps, phases, counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes.phase_recording import watched  # noqa: E402
from tests.fakes.training_loop import LOSS, N, Net, expect, loader, train  # noqa: E402


@pytest.mark.parametrize("passed", [True, False], ids=["model-passed", "no-arguments"])
class TestLoops:
    """The same loops with and without the arguments of watch()."""

    def test_plain(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
        expect(run)
        assert run.inferred == 0
        assert run.counts["forward"] == N and run.counts["data"] == N
        assert "__call__" not in vars(Net)

    def test_accumulation(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer, k=4)
        expect(run, micro=4)

    @pytest.mark.parametrize("kind", ["non-reentrant", "reentrant"])
    def test_checkpoint(self, tmp_path: Path, passed: bool, kind: str) -> None:
        model = Net(kind)
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
        expect(run)
        assert run.counts["recompute"] == 4 * N
        assert run.seconds("recompute", skip=2) > 0

    def test_scaler(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer, scaler=torch.amp.GradScaler("cpu"), dtype=torch.float16)
        assert run.steps == N and run.micros == [1] * N
        assert run.counts["optimizer"] == N  # unscaling is a part of it

    def test_evaluation(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            train(model, optimizer)
            model.eval()
            with torch.no_grad():
                for x, _ in loader(batches=5):
                    model(x)
        expect(run)
        assert run.counts["eval"] == 5

    def test_forward_twice(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                loss = LOSS(model(x), y) + LOSS(model(x.flip(0)), y.flip(0))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        expect(run)

    def test_lbfgs(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        x, y = next(iter(loader()))

        def closure() -> Any:
            optimizer.zero_grad()
            loss = LOSS(model(x), y)
            loss.backward()
            return loss

        with watched(tmp_path, model if passed else None) as run:
            for _ in range(3):
                optimizer.step(closure)
        assert run.steps == 3
        assert all(1 <= micro <= 5 for micro in run.micros)
        assert run.seconds("forward") > 0 and run.seconds("optimizer") > 0

    def test_two_optimizers_of_one_model_are_one_step(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        first = torch.optim.SGD(model.layers.parameters(), lr=1e-3)
        second = torch.optim.AdamW(model.head.parameters())
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                LOSS(model(x), y).backward()
                first.step()
                second.step()
                model.zero_grad()
        assert run.steps == N and run.micros == [1] * N

    def test_optimizer_in_backward(self, tmp_path: Path, passed: bool) -> None:
        model = Net()
        each = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

        def step(parameter: Any) -> None:
            each[parameter].step()
            each[parameter].zero_grad()

        for parameter in each:
            parameter.register_post_accumulate_grad_hook(step)
        with watched(tmp_path, model if passed else None) as run:
            for x, y in loader(batches=N):
                LOSS(model(x), y).backward()
        assert run.steps == N and run.micros == [1] * N
