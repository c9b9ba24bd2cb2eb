"""Every loop with and without the arguments of watch(): counts and seconds are the true ones."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import timeit
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._dynamo import convert_frame  # noqa: E402

from probe.instrument.patches import dynamo  # noqa: E402
from tests.fakes import span_sums  # noqa: E402
from tests.fakes.phase_recording import watched  # noqa: E402
from tests.loops.archetypes import LOOPS  # noqa: E402
from tests.loops.compare import EACH_S, Difference, differences  # noqa: E402
from tests.loops.truth import Truth  # noqa: E402

USUAL_LOOP_S = 15e-9  # of an empty loop: assumed of machines that the bound per phase is for
MOST_SLOWNESS = 3.0
# Another process may take the core between our look at the clock and the truth's.
MEASUREMENTS = 12
MEASURED_S = 60.0  # on a busy machine more of them


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
    """Counts are exact every time; seconds of a phase are right in one of the measurements."""
    always: dict[str, Difference] = {}
    number, end_s = 0, time.monotonic() + MEASURED_S
    while number < MEASUREMENTS or time.monotonic() < end_s:
        wrong = {each.what: each for each in measured(name, passed, tmp_path)}
        assert not any("count" in what or what == "steps" for what in wrong), describe(
            list(wrong.values())
        )
        always = {what: wrong[what] for what in wrong if number == 0 or what in always}
        if not always:
            return
        number += 1
    pytest.fail(describe(list(always.values())))


def slowness() -> float:
    """How much slower than usual Python is here and now; between 1 and MOST_SLOWNESS."""
    looped = "for _ in range(20_000): pass"
    each_s = min(timeit.repeat(looped, number=1, repeat=5)) / 20_000
    return min(max(1.0, each_s / USUAL_LOOP_S), MOST_SLOWNESS)


def measured(name: str, passed: bool, tmp_path: Path) -> list[Difference]:
    """What is wrong with what was recorded of a loop."""
    each_s = EACH_S * slowness()
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
    counts = truth.counts().as_json()
    return differences(counts, run.steps, run.counts, seconds, each_s=each_s)


def describe(wrong: list[Difference]) -> str:
    return "; ".join(map(str, wrong))


class Bounds:
    """Seconds of all threads between clocks ``inside`` a phase, and between clocks ``around`` it.

    The phase lies between both, even where a thread waits for a core between two clocks.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.steps = 0
        self.inside = {"forward": 0.0, "backward": 0.0}
        self.around = {"forward": 0.0, "backward": 0.0}

    def add_step(self, edges_s: list[float]) -> None:
        """The seven clocks of one step, in their order."""
        begin_s, forward_s, forward_end_s, end_s, backward_s, backward_end_s, last_s = edges_s
        with self.lock:
            self.steps += 1
            self.inside["forward"] += forward_end_s - forward_s
            self.around["forward"] += backward_s - begin_s  # the loss is part of it
            self.inside["backward"] += backward_end_s - backward_s
            self.around["backward"] += last_s - end_s


class SlowBackward(torch.autograd.Function):
    """The first part of a backward, of 8 ms."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, edges_s: list[float]) -> torch.Tensor:
        ctx.edges_s = edges_s
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.edges_s.append(time.perf_counter())
        time.sleep(0.008)
        ctx.edges_s.append(time.perf_counter())
        return gradient, None


class Slow(torch.nn.Module):
    """A forward and a backward that note when they begin and end."""

    def __init__(self, seconds: float):
        super().__init__()
        self.linear, self.seconds = torch.nn.Linear(8, 8), seconds

    def forward(self, x: torch.Tensor, edges_s: list[float]) -> torch.Tensor:
        edges_s.append(time.perf_counter())
        time.sleep(self.seconds)
        output = SlowBackward.apply(self.linear(x), edges_s)
        edges_s.append(time.perf_counter())
        return output  # type: ignore[no-any-return]


def train_slowly(number: int, truth: Bounds, turn: contextlib.AbstractContextManager[Any]) -> None:
    model = Slow(0.004 * (number + 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6 + number):
        batch = torch.randn(4, 8)
        with turn:
            edges_s = [time.perf_counter()]
            loss = model(batch, edges_s).square().mean()
            edges_s.append(time.perf_counter())
            loss.backward()
            edges_s.append(time.perf_counter())
            optimizer.step()
            optimizer.zero_grad()
        truth.add_step(edges_s)
        time.sleep(0.001)


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("how", ["at once", "one after the other", "in turn", "a second time"])
def test_threads_that_train(how: str, threads: int, tmp_path: Path) -> None:
    """Each has its phases; their sums are what the threads' own clocks say, step for step."""
    train_slowly(0, Bounds(), contextlib.nullcontext())  # what torch does once
    truth = Bounds()
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
    assert run.engine.steps == truth.steps
    for phase in ("forward", "backward"):
        count, seconds = run.of_all_threads(phase)
        assert count == truth.steps, phase
        assert truth.inside[phase] < seconds < truth.around[phase], phase
    lines = run.engine.all_warnings()
    if how == "one after the other":
        assert lines == [] and not run.threads
    else:
        assert len(run.threads) == threads - 1, "a ring serves a thread that comes later, too"
        assert [line for line in lines if f"{threads} threads trained at the same" in line]
