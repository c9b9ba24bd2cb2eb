"""Loops in which a step, a batch or a time is not seen: a note says which, the rest is right."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.fakes.phase_recording import watched  # noqa: E402
from tests.loops.archetypes import LOSS, STEPS, Adjoint, batch, batches, sgd  # noqa: E402
from tests.loops.models import Net  # noqa: E402


def step(model: Any, optimizer: Any, x: Any, y: Any) -> None:
    LOSS(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()


def step_by_hand(model: Any, x: Any, y: Any) -> None:
    LOSS(model(x), y).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.01 * parameter.grad)
            parameter.grad = None


def test_steps_by_hand_after_those_of_an_optimizer(tmp_path: Path) -> None:
    """As of a posterior that is sampled once it has been fitted."""
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    with watched(tmp_path, model, optimizer) as run:
        for x, y in batches(20):
            step(model, optimizer, x, y)
        for x, y in batches(30):
            step_by_hand(model, x, y)
        for _ in range(5):
            step(model, optimizer, *batch())
    assert run.steps == 54
    (said,) = run.engine.all_warnings()
    assert said.startswith("no optimizer made 29 of the steps") and "the first is missing" in said


def test_longer_accumulation_is_no_step(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    with watched(tmp_path, model, optimizer) as run:
        for micro in (1, 2, 4, 8):
            for x, y in batches(micro):
                LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert run.steps == 4 and run.engine.all_warnings() == []


def test_an_optimizer_made_later_takes_no_step_of_those_by_hand(tmp_path: Path) -> None:
    model = Net()
    with watched(tmp_path) as run:
        for x, y in batches(6):
            step_by_hand(model, x, y)
        optimizer = sgd(model)
        for x, y in batches(6):
            step(model, optimizer, x, y)
    assert run.steps == 12


def test_optimizers_in_hooks_of_gradients(tmp_path: Path) -> None:
    model = Net()
    made = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def step_now(parameter: Any) -> None:
        made[parameter].step()
        parameter.grad = None

    for parameter in made:
        parameter.register_post_accumulate_grad_hook(step_now)
    with watched(tmp_path) as run:
        for x, y in batches():
            LOSS(model(x), y).backward()
    assert run.steps == STEPS
    assert run.engine.all_warnings() == [
        "the optimizer steps inside the backward: its time is in backward"
    ]


class Flaky(torch.optim.SGD):
    """Every third step fails."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        if self.calls % 3 == 0:
            raise RuntimeError("out of memory")
        return super().step(closure)


def test_steps_that_raise_are_counted_apart(tmp_path: Path) -> None:
    model = Net()
    optimizer = Flaky(model.parameters(), lr=0.01)
    with watched(tmp_path, model, optimizer) as run:
        for x, y in batches(9):
            LOSS(model(x), y).backward()
            with contextlib.suppress(RuntimeError):
                optimizer.step()
            optimizer.zero_grad()
    assert run.steps == 6
    (said,) = run.engine.all_warnings()
    assert said.startswith("3 steps of an optimizer raised an error: ")


def test_of_the_step_that_ends_the_training_nothing_is_said(tmp_path: Path) -> None:
    model = Net()
    optimizer = Flaky(model.parameters(), lr=0.01)
    with pytest.raises(RuntimeError, match="out of memory"), watched(tmp_path, model) as run:
        try:
            for x, y in batches(9):
                step(model, optimizer, x, y)
        finally:
            run.engine.uninstall(failed=True)
    assert run.engine.all_warnings() == []


def test_an_optimizer_that_calls_the_model_itself_has_not_raised(tmp_path: Path) -> None:
    model = Net()

    class Perturbing(torch.optim.SGD):
        def step(self, inputs: Any = None) -> None:  # type: ignore[override]
            LOSS(model(inputs[0]), inputs[1]).backward()
            super().step()

    optimizer = Perturbing(model.parameters(), lr=0.01)
    with watched(tmp_path, model, optimizer) as run:
        for x, y in batches():
            LOSS(model(x), y).backward()
            optimizer.step((x, y))
            optimizer.zero_grad()
    assert run.steps == STEPS
    assert run.engine.all_warnings() == []


def from_a_thread(loader: Any) -> Iterator[Any]:
    """Batches that a thread has loaded ahead."""
    ready: queue.Queue[Any] = queue.Queue(2)

    def load() -> None:
        for loaded in loader:
            ready.put(loaded)
        ready.put(None)

    thread = threading.Thread(target=load)
    thread.start()
    while (loaded := ready.get()) is not None:
        yield loaded
    thread.join()


@pytest.mark.parametrize("trained_before", [False, True])
def test_a_thread_that_loads_ahead_does_not_train(trained_before: bool, tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    with watched(tmp_path) as run:
        if trained_before:
            step(model, optimizer, *batch())
        for x, y in from_a_thread(batches(40)):
            step(model, optimizer, x, y)
    assert run.steps == 40 + trained_before
    assert run.counts["forward"] == run.counts["backward"] == run.steps
    (said,) = run.engine.all_warnings()
    assert said.startswith("a thread that does not train loaded ")


def test_batches_loaded_without_gradients_are_counted_if_they_are_trained(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    with watched(tmp_path, model, optimizer) as run, torch.no_grad():
        for _ in range(2):
            for x, y in batches():
                with torch.enable_grad():
                    step(model, optimizer, x, y)
            model.eval()
            for x, _ in batches(4):
                model(x)
            model.train()
    assert run.counts["data"] == 2 * STEPS
    assert run.samples == 4 * 2 * STEPS


def test_batches_of_a_model_that_a_function_calls_are_counted(tmp_path: Path) -> None:
    model = Net()
    optimizer = sgd(model)
    with watched(tmp_path, model, optimizer) as run:
        for _ in range(2):
            for number, (x, y) in enumerate(batches()):
                LOSS(Adjoint.apply(model, x, *model.parameters()), y).backward()
                if number % 2:
                    optimizer.step()
                    optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                for x, _ in batches(4):
                    model(x)
            model.train()
    assert run.counts["data"] == run.counts["forward"] == 2 * STEPS == 2 * run.steps
    assert run.counts["eval"] == 2 * 4
    assert run.samples == 4 * 2 * STEPS
