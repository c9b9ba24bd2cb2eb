"""What it costs to find out which modules train, where there are many and where it happens often.

    python -m benchmarks.cost.root_search

With 10⁵ modules alive: how much longer than usual the first forward, the first evaluation (which
asks for optimizers made before), a new optimizer and a second model take. Then steps of some 10 ms
with a new optimizer each, as in test-time adaptation: CPU time of their thread with and without us,
in blocks that take turns; beside it the same with one optimizer, and with a new model, too.

Bars: ≤ 5 ms for each search; ≤ 1 % of a step with a new optimizer.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.harness.results import save
from tests.fakes.phase_recording import watched

ALIVE, REPEATS = 100_000, 5
MOST_MS, MOST_SHARE = 5.0, 0.01
BLOCKS, STEPS, ROWS, WIDTH = 40, 12, 512, 512


def net() -> nn.Module:
    layers = (nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
    return nn.Sequential(*layers)


def sgd(model: nn.Module) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def took_ms(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def searches(folder: Path) -> dict[str, float]:
    """Milliseconds that each search adds; the least of several, each in a watch of its own."""
    x = torch.randn(8, WIDTH)
    least: dict[str, float] = {}

    def note(what: str, call: Callable[[], Any]) -> None:
        usual = statistics.median(took_ms(plain[what]) for _ in range(50))
        added = max(0.0, took_ms(call) - usual)
        least[what] = min(added, least.get(what, added))

    def evaluated(model: nn.Module) -> Any:
        with torch.no_grad():
            return model(x)

    model = net()
    plain: dict[str, Callable[[], Any]] = {
        "first evaluation": lambda: evaluated(model),
        "first forward": lambda: model(x),
        "second model": lambda: model(x),
        "new optimizer": lambda: sgd(model),
        "its first step": optimizer_of(model).step,
    }
    for _ in range(REPEATS):
        first, second = net(), net()
        before = optimizer_of(first)
        with watched(folder):
            note("first evaluation", partial(evaluated, first.eval()))
            note("first forward", partial(first.train(), x))
            first(x).sum().backward()
            before.step()
            note("second model", partial(second, x))
            note("new optimizer", partial(sgd, second))
            after = optimizer_of(second)
            note("its first step", after.step)
    return least


def optimizer_of(model: nn.Module) -> Any:
    """With gradients, so that it can step."""
    model(torch.randn(8, WIDTH)).sum().backward()
    return sgd(model)


class Adapting:
    """Steps on the same data; what is new at every step is made anew."""

    def __init__(self, *, new_model: bool, new_optimizer: bool):
        self._new_model, self._new_optimizer = new_model, new_optimizer
        self._model = net()
        self._optimizer = sgd(self._model)
        self._x = torch.randn(ROWS, WIDTH)

    def seconds(self, steps: int) -> float:
        """CPU time of the thread."""
        began = time.thread_time()
        for _ in range(steps):
            if self._new_model:
                self._model = net()
            if self._new_optimizer:
                self._optimizer = sgd(self._model)
            self._optimizer.zero_grad()
            self._model(self._x).square().mean().backward()
            self._optimizer.step()
        return time.thread_time() - began


def added(folder: Path, loop: Adapting) -> dict[str, float]:
    """A step's CPU ms without us, and µs that we add."""
    plain, watched_s = [], []
    loop.seconds(STEPS)
    for _ in range(BLOCKS):
        plain.append(loop.seconds(STEPS) / STEPS)
        with watched(folder):
            loop.seconds(STEPS // 3)  # what a watch does once is not what is asked
            watched_s.append(loop.seconds(STEPS) / STEPS)
    more = statistics.median(b - a for a, b in zip(plain, watched_s, strict=True))
    usual = statistics.median(plain)
    return {"step_ms": usual * 1e3, "added_us": more * 1e6, "share": more / usual}


LOOPS = {
    "one optimizer": {"new_model": False, "new_optimizer": False},
    "a new optimizer every step": {"new_model": False, "new_optimizer": True},
    "a new model and optimizer every step": {"new_model": True, "new_optimizer": True},
}


def main() -> int:
    torch.set_num_threads(1)
    alive = [nn.Linear(1, 1) for _ in range(ALIVE)]
    with tempfile.TemporaryDirectory() as folder:
        searched = searches(Path(folder))
        del alive
        loops = {name: added(Path(folder), Adapting(**new)) for name, new in LOOPS.items()}
    for what, ms in searched.items():
        print(f"{what:38}{ms:8.3f} ms   with {ALIVE} modules alive")
    for what, row in loops.items():
        print(f"{what:38}{row['added_us']:6.1f} µs of {row['step_ms']:.1f} ms, {row['share']:.2%}")
    save("cost/root_search", {"alive": ALIVE, "added_ms": searched, "loops": loops})
    share = loops["a new optimizer every step"]["share"]
    return 0 if max(searched.values()) <= MOST_MS and share <= MOST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
