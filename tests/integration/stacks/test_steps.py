"""What one step is, where loops do not make it easy to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes.phase_recording import watched  # noqa: E402
from tests.fakes.training_loop import BACKEND, LOSS, N, Net, loader  # noqa: E402


def test_hand_written_loop_without_arguments(tmp_path: Path) -> None:
    """nanoGPT's loop: get_batch, k microsteps, estimate_loss every other step."""
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def get_batch() -> Any:
        return torch.randn(16, 64), torch.randint(0, 10, (16,))

    @torch.no_grad()
    def estimate_loss() -> None:
        model.eval()
        for _ in range(3):
            x, y = get_batch()
            LOSS(model(x), y)
        model.train()

    with watched(tmp_path) as run:
        for step in range(N):
            if step % 2 == 0:
                estimate_loss()
            for _ in range(3):
                x, y = get_batch()
                (LOSS(model(x), y) / 3).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    assert run.steps == N and run.micros == [3] * N
    assert run.counts["forward"] == 3 * N
    assert run.counts["eval"] == 3 * 3
    assert not run.inferred
    assert run.engine.model_found == "found by its parameters: Net"
    assert run.engine.parameters_hash


def test_scaler_skips_a_step(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    with watched(tmp_path, model) as run:
        for step, (x, y) in enumerate(loader(batches=N)):
            scaler.scale(LOSS(model(x), y)).backward()
            if step == 2:
                model.head.bias.grad.fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert len(called) == run.steps == run.counts["optimizer"] == N - 1
    assert run.micros == [1, 1, 2, 1, 1]


@pytest.mark.filterwarnings("error:Dynamo does not know")
@pytest.mark.parametrize("grads_to_none", [True, False])
@pytest.mark.parametrize("passed", ["model", "optimizer", "nothing"])
def test_compiled_optimizer_step(tmp_path: Path, grads_to_none: bool, passed: str) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))

    @torch.compile(fullgraph=False, backend=BACKEND)
    def step() -> None:
        optimizer.step()

    for x, y in loader(batches=2):  # compiled before it is watched: the hooks never run
        LOSS(model(x), y).backward()
        step()
        optimizer.zero_grad()
    given = {"model": (model, None), "optimizer": (None, optimizer), "nothing": ()}[passed]
    with watched(tmp_path, *given) as run:
        for x, y in loader(batches=N):
            LOSS(model(x), y).backward()
            step()
            optimizer.zero_grad(set_to_none=grads_to_none)
    assert run.steps >= N - 1 and sum(run.micros) >= N - 1, run.sequence()


def test_gradients_stolen_between_backwards_stay_one_step(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watched(tmp_path, model) as run:
        batches = iter(loader())
        for _ in range(10):
            kept = []
            for _ in range(3):
                x, y = next(batches)
                LOSS(model(x), y).backward()
                kept.append([p.grad for p in model.parameters()])
                for p in model.parameters():
                    p.grad = None
            for p, *grads in zip(model.parameters(), *kept, strict=True):
                p.grad = torch.stack(grads).sum(0)
            optimizer.step()
            optimizer.zero_grad()
    assert run.micros[-6:] == [3] * 6, run.micros
