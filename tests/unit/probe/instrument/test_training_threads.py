"""Threads that train beside another one: what is theirs, what opens a ring, what ends it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from probe.ring.layout import Code, Record  # noqa: E402
from probe.timeline.phase_totals import PhaseTotals  # noqa: E402
from probe.timeline.rank_timeline import Timeline  # noqa: E402
from probe.units import NS_PER_S  # noqa: E402
from tests.fakes.phase_recording import Watched, watched  # noqa: E402

STEPS = 5


def train(steps: int = STEPS, inside: Callable[[], object] = lambda: None) -> None:
    """A loop; ``inside`` is called in every forward."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside()
            return self.linear(x)  # type: ignore[no-any-return]

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def while_another_trains(work: Callable[[], object]) -> None:
    """Do ``work`` in a thread whenever this one is amid a forward, and wait for its end."""
    done: list[threading.Thread] = []

    def once() -> None:
        if done:
            return
        thread = threading.Thread(target=work)
        done.append(thread)
        thread.start()
        while thread.is_alive():  # a join would say that this thread waits
            os.sched_yield()

    train(inside=once)


def beside(run: Watched) -> int:
    """Steps in the rings of further threads."""
    return sum(int((rows["kind"] == Record.STEP).sum()) for rows in run.threads)


def test_a_training_amid_the_forward_of_another(tmp_path: Path) -> None:
    with watched(tmp_path) as run:
        while_another_trains(train)
    assert run.engine.steps == 2 * STEPS and beside(run) == STEPS
    for phase in ("forward", "backward", "optimizer"):
        assert run.of_all_threads(phase)[0] == 2 * STEPS, phase
        assert run.counts[phase] == STEPS, phase


def test_steps_of_a_thread_without_an_optimizer_are_said_to_be_unknown(tmp_path: Path) -> None:
    def by_hand() -> None:
        model = torch.nn.Linear(4, 4)
        for _ in range(STEPS):
            model(torch.ones(2, 4)).mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None

    with watched(tmp_path) as run:
        while_another_trains(by_hand)
    assert run.engine.steps == STEPS and run.of_all_threads("backward")[0] == 2 * STEPS
    (line,) = run.engine.all_warnings()
    assert line.endswith("in 1 of them no optimizer was seen: steps are unknown there")


def test_a_thread_that_only_calls_a_module_has_no_ring(tmp_path: Path) -> None:
    module = torch.nn.Linear(4, 4)
    with watched(tmp_path) as run:
        while_another_trains(lambda: [module(torch.ones(2, 4)) for _ in range(3000)])
    assert run.engine.steps == STEPS and run.engine.all_warnings() == []
    assert not run.threads
    assert run.counts["forward"] == STEPS


def test_a_thread_whose_first_signal_is_a_backward(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def descend() -> None:
        for _ in range(STEPS):
            (weight * 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    with watched(tmp_path) as run:
        while_another_trains(descend)
    assert run.engine.steps == 2 * STEPS
    assert run.of_all_threads("backward")[0] == run.of_all_threads("optimizer")[0] == 2 * STEPS
    assert run.of_all_threads("forward")[0] == STEPS  # no module was called there


def test_a_name_of_the_users_is_the_threads_own(tmp_path: Path) -> None:
    with watched(tmp_path) as run:

        def named() -> None:
            with run.engine.phase("mine"):
                pass

        while_another_trains(lambda: train(inside=named))
    (rows,) = run.threads
    named_here = (rows["kind"] == Record.MARK) & (rows["code"] >= Code.USER)
    assert int(named_here.sum()) == STEPS


@pytest.mark.filterwarnings("ignore:Exception in thread")
def test_a_thread_that_fails_amid_a_forward(tmp_path: Path) -> None:
    def fail() -> None:
        def stop() -> None:
            raise SystemExit  # ends the thread without a word

        train(3)
        train(inside=stop)

    with watched(tmp_path) as run:
        while_another_trains(fail)
        while_another_trains(train)
    assert run.engine.steps == 2 * STEPS + 3 + STEPS
    assert run.of_all_threads("backward")[0] == run.engine.steps
    assert run.of_all_threads("forward")[0] == run.engine.steps + 1
    assert len(run.threads) == 1


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    with watched(tmp_path) as run:

        def forking() -> None:
            train(2)
            child = os.fork()
            if child == 0:
                train(7)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            train(2)

        while_another_trains(forking)
    assert run.engine.steps == STEPS + 4 and beside(run) == 4


def totals(names: dict[int, str], seconds: dict[int, float]) -> PhaseTotals:
    return PhaseTotals(0, names, seconds, dict.fromkeys(seconds, 10), {}, 10, 0.0)


def timeline(step_s: list[int], threads: tuple[Timeline, ...] = ()) -> Timeline:
    """A second of forward and a step at each of these seconds."""
    at = np.array(step_s, np.int64) * NS_PER_S
    ones = np.ones(len(at), np.bool_)
    return Timeline(
        0, at - NS_PER_S, at, np.full(len(at), 2), ones, at, {2: "forward"}, ~ones,
        elsewhere=sum(len(thread.step_ns) for thread in threads), threads=threads,
    )  # fmt: skip


def test_a_part_has_the_steps_and_seconds_of_all_threads_in_it() -> None:
    rank = timeline([1, 2, 3, 4], (timeline([2, 3, 4]), timeline([4, 5])))
    assert rank.steps == 9 and rank.totals().seconds == {2: 9.0}
    part = rank.part(1 * NS_PER_S, 3 * NS_PER_S)
    assert part.steps == 4 and part.totals().seconds == {2: 4.0}


def test_threads_are_summed_by_name() -> None:
    first = totals({2: "forward", 64: "mine"}, {2: 3.0, 64: 1.0})
    names = {2: "forward", 3: "backward", 64: "theirs", 65: "mine"}
    other = totals(names, {2: 5.0, 3: 1.0, 64: 2.0, 65: 4.0})
    both = first.and_threads([other])
    by_name = {both.name(code): spent_s for code, spent_s in both.seconds.items()}
    assert by_name == {"forward": 8.0, "mine": 5.0, "backward": 1.0, "theirs": 2.0}
    assert {both.name(c): n for c, n in both.counts.items()} == {
        "forward": 20, "mine": 20, "backward": 10, "theirs": 10,
    }  # fmt: skip
    assert both.threads == 2 and both.beside_s == 12.0 and both.in_threads
    assert first.and_threads([totals({2: "forward"}, {2: 0.02})]).in_threads is False
