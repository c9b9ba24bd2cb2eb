"""The loop that overhead.py times, and the ways in which it is watched: ours and the peers'.

A way is a context around a process's life. It yields a turn: a context around some steps, which
yields the function that marks a phase, itself a context around the phase.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness import hooks

Marks = Callable[[str], contextlib.AbstractContextManager[Any]]
Turn = Callable[[], contextlib.AbstractContextManager[Marks]]
Step = Callable[[Marks], None]


def make_step(depth: int, batch: int, width: int) -> tuple[Any, Any, Step]:
    """(model, optimizer, one step) of ``depth`` blocks of this width, on one thread."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        *(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
            for _ in range(depth)
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    batches = [torch.randn(batch, width) for _ in range(4)]

    def endless() -> Iterator[Any]:
        while True:
            yield from torch.utils.data.DataLoader(batches * 64, batch_size=None)

    loader = endless()

    def step(mark: Marks) -> None:
        with mark("data"):
            inputs = next(loader)
        with mark("forward"):
            loss = model(inputs).square().mean()
        with mark("backward"):
            loss.backward()
        with mark("optimizer"):
            optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def unmarked(_name: str) -> contextlib.AbstractContextManager[None]:
    """No mark at all."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def bare(_model: Any, _optimizer: Any) -> Iterator[Turn]:
    """Not watched."""
    yield lambda: contextlib.nullcontext(unmarked)


@contextlib.contextmanager
def phasewatt(model: Any, optimizer: Any) -> Iterator[Turn]:
    """`probe.watch()`: all phases are automatic; outside of turns there are no hooks of ours."""
    with hooks.watched(model, optimizer, settled_s=0.0) as run:

        @contextlib.contextmanager
        def turn() -> Iterator[Marks]:
            before = run._engine.steps
            with hooks.hooks(run, model, optimizer):
                yield unmarked
            assert run._engine.steps > before, "nothing was recorded"

        yield turn


@contextlib.contextmanager
def codecarbon(_model: Any, _optimizer: Any) -> Iterator[Turn]:
    """A task per phase."""
    from codecarbon import OfflineEmissionsTracker

    tracker = OfflineEmissionsTracker(
        country_iso_code="USA", save_to_file=False, log_level="critical"
    )
    number = itertools.count()

    @contextlib.contextmanager
    def mark(name: str) -> Iterator[None]:
        tracker.start_task(f"{name}-{next(number)}")  # a name may be used once
        try:
            yield
        finally:
            tracker.stop_task()

    with mark("first"):  # detects the hardware
        pass
    yield lambda: contextlib.nullcontext(mark)


@contextlib.contextmanager
def zeus(_model: Any, _optimizer: Any) -> Iterator[Turn]:
    """A window per phase, of the fastest kind: no device sync."""
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[])

    @contextlib.contextmanager
    def mark(name: str) -> Iterator[None]:
        monitor.begin_window(name, sync_execution=False)
        try:
            yield
        finally:
            monitor.end_window(name, sync_execution=False)

    yield lambda: contextlib.nullcontext(mark)


@contextlib.contextmanager
def profiler(_model: Any, _optimizer: Any) -> Iterator[Turn]:
    """A profile of every turn, its phases as ranges."""
    import torch

    @contextlib.contextmanager
    def turn() -> Iterator[Marks]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            yield torch.profiler.record_function

    yield turn


WAYS: dict[str, Callable[[Any, Any], contextlib.AbstractContextManager[Turn]]] = {
    "A/A": bare,
    "phasewatt": phasewatt,
    "CodeCarbon": codecarbon,
    "Zeus": zeus,
    "torch.profiler": profiler,
}
# So slow that one turn in a block tells enough.
SELDOM = {"CodeCarbon", "Zeus", "torch.profiler"}
