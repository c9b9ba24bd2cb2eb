"""Every loop with and without the arguments of watch(): counts and seconds are the true ones."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import convert_frame  # noqa: E402

from probe.instrument.patches import dynamo  # noqa: E402
from tests.fakes import span_sums  # noqa: E402
from tests.fakes.phase_recording import watched  # noqa: E402
from tests.loops.archetypes import LOOPS  # noqa: E402
from tests.loops.compare import Difference, differences  # noqa: E402
from tests.loops.truth import Truth  # noqa: E402

MEASUREMENTS = 6  # another process may take the core between our look at the clock and the truth's


@pytest.fixture(autouse=True)
def _nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own: others of this one may have traced."""
    monkeypatch.setattr(dynamo, "_traces", False)
    monkeypatch.setattr(convert_frame, "FRAME_COUNTER", 0)


# Every loop in one of the two ways; `make test-full`: in both.
WAYS = [
    pytest.param(
        name,
        passed,
        id=f"{name}-{'watch(model,optimizer)' if passed else 'watch()'}",
        marks=[] if passed == bool(number % 2) else [pytest.mark.full],
    )
    for number, name in enumerate(LOOPS)
    for passed in (False, True)
]


@pytest.mark.parametrize(("name", "passed"), WAYS)
def test_counts_and_seconds(name: str, passed: bool, tmp_path: Path) -> None:
    """Counts are exact every time; seconds are those of the least disturbed measurement."""
    for _ in range(MEASUREMENTS):
        wrong = measured(name, passed, tmp_path)
        assert not any("count" in w.what or w.what == "steps" for w in wrong), describe(wrong)
        if not wrong:
            return
    pytest.fail(describe(wrong))


def measured(name: str, passed: bool, tmp_path: Path) -> list[Difference]:
    """What is wrong with what was recorded of a loop."""
    torch.manual_seed(0)
    with Truth() as truth:
        loop = LOOPS[name](truth)
        model, optimizer = next(loop)
        with watched(tmp_path, *((model, optimizer) if passed else ())) as run:
            next(loop, None)
    gc.collect()
    assert run.engine.all_warnings() == []
    seconds: dict[str, float] = {}
    for (_, code), spent in span_sums.seconds(run.spans).items():
        phase = run.names.get(code, str(code))
        seconds[phase] = seconds.get(phase, 0.0) + spent
    return differences(truth.counts().as_json(), run.steps, run.counts, seconds)


def describe(wrong: list[Difference]) -> str:
    return "; ".join(map(str, wrong))


class Timed:
    """How often a thread's own clock saw a phase, and for how long; of all threads together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.times: dict[str, list[float]] = {"forward": [], "backward": []}

    def add(self, phase: str, began_s: float) -> None:
        with self.lock:
            self.times[phase].append(time.perf_counter() - began_s)


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.008)
        return gradient


class Slow(torch.nn.Module):
    """A forward and a backward of known length."""

    def __init__(self, seconds: float):
        super().__init__()
        self.linear, self.seconds = torch.nn.Linear(8, 8), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return SlowBackward.apply(self.linear(x))  # type: ignore[no-any-return]


def train_slowly(number: int, truth: Timed, turn: contextlib.AbstractContextManager[Any]) -> None:
    model = Slow(0.004 * (number + 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6 + number):
        batch = torch.randn(4, 8)
        with turn:
            began_s = time.perf_counter()
            loss = model(batch).square().mean()
            truth.add("forward", began_s)
            began_s = time.perf_counter()
            loss.backward()
            truth.add("backward", began_s)
            optimizer.step()
            optimizer.zero_grad()
        time.sleep(0.001)


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("how", ["at once", "one after the other", "in turn", "a second time"])
def test_threads_that_train(how: str, threads: int, tmp_path: Path) -> None:
    """Each has its phases; their sums are what the threads' own clocks say, step for step."""
    train_slowly(0, Timed(), contextlib.nullcontext())  # what torch does once
    for _ in range(MEASUREMENTS):
        truth = Timed()
        turn = threading.Lock() if how == "in turn" else contextlib.nullcontext()
        with watched(tmp_path) as run:
            for _ in range(1 + (how == "a second time")):
                each = [
                    threading.Thread(target=train_slowly, args=(number, truth, turn))
                    for number in range(threads)
                ]
                for thread in each:
                    thread.start()
                    if how == "one after the other":
                        thread.join()
                for thread in each:
                    thread.join()
        steps = len(truth.times["backward"])
        assert run.engine.steps == steps
        wrong = {}
        for phase, times in truth.times.items():
            count, seconds = run.of_all_threads(phase)
            assert count == steps, phase
            if abs(seconds - sum(times)) > max(0.02 * sum(times), 15e-6 * steps):
                wrong[phase] = seconds, sum(times)
        lines = run.engine.all_warnings()
        if how == "one after the other":
            assert lines == [] and not run.threads
        else:
            assert len(run.threads) == threads - 1, "a ring serves a thread that comes later, too"
            assert [line for line in lines if f"{threads} threads trained at the same" in line]
        if not wrong:
            return
    pytest.fail(str(wrong))


def test_a_model_and_an_optimizer_of_its_own_for_every_step(tmp_path: Path) -> None:
    """Of the many roots those that are gone make place for others."""
    steps = 300
    with watched(tmp_path) as run:
        for _ in range(steps):
            model = torch.nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    assert run.steps == run.counts["forward"] == run.counts["backward"] == steps
    assert run.engine.all_warnings() == [] and not run.inferred


@pytest.mark.parametrize("name", ["plain", "gan", "lbfgs", "q_learning", "written_by_data"])
def test_losses_and_weights_are_the_same_bits(name: str, tmp_path: Path) -> None:
    def trained(watch: bool) -> list[bytes]:
        torch.manual_seed(0)
        loop = LOOPS[name](Truth())
        models, _ = next(loop)
        if watch:
            with watched(tmp_path):
                next(loop, None)
        else:
            next(loop, None)
        models = models if isinstance(models, list) else [models]
        return [p.detach().numpy().tobytes() for model in models for p in model.parameters()]

    assert trained(watch=True) == trained(watch=False)
