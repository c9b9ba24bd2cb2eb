"""What an entry counts: short steps are logged together, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from probe.integrations import training_run
from probe.integrations.training_run import Trained, TrainingRun

MS = 1_000_000


class Recorded:
    """The run that is active; keeps what is logged."""

    path = None

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def log(self, **values: Any) -> None:
        self.logs.append(values)

    def totals(self) -> Counter[str]:
        return sum((Counter(each) for each in self.logs), Counter())


class Framework:
    """What an entry begins with."""


class Entry:
    """Counts as an entry does: in every step, and logs when that is due."""

    def __init__(self) -> None:
        self.samples = self.tokens = 0
        self.training = TrainingRun({}, trained=self.trained)

    def trained(self) -> Trained | None:
        samples, tokens, self.samples, self.tokens = self.samples, self.tokens, 0, 0
        return Trained(samples, tokens, tokens_of_all=2 * tokens) if samples else None

    def step(self, samples: int, tokens: int) -> None:
        self.samples += samples
        self.tokens += tokens
        if training_run.time.monotonic_ns() >= self.training.due_ns:
            self.training.log_trained()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock, in ms."""
    clock = [1000]
    monkeypatch.setattr(training_run.time, "monotonic_ns", lambda: clock[0] * MS)
    return clock


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    run = Recorded()
    monkeypatch.setattr(training_run, "active_run", lambda: run)
    return run


def test_short_steps_are_logged_together_and_all_of_them(
    now: list[int], recorded: Recorded
) -> None:
    entry, framework = Entry(), Framework()
    entry.training.begin(framework)
    for _step in range(105):
        now[0] += 10
        entry.step(8, 320)
    before_end = recorded.totals()
    assert len(recorded.logs) == 3  # in the first step, and every half second
    assert 0 < 105 * 8 - before_end["samples"] < 50 * 8
    entry.training.end()
    assert recorded.totals() == {"samples": 105 * 8, "tokens": 105 * 320}


def test_a_long_step_is_logged_at_once(now: list[int], recorded: Recorded) -> None:
    entry, framework = Entry(), Framework()
    entry.training.begin(framework)
    for step in range(1, 6):
        now[0] += 500
        entry.step(8, 0)
        assert recorded.logs == [{"samples": 8}] * step
    entry.training.end()
    assert len(recorded.logs) == 5


def test_a_failing_log_ends_the_training_all_the_same(
    now: list[int], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, framework = Entry(), Framework()
    entry.training.begin(framework)
    entry.step(8, 8)
    entry.step(8, 8)
    monkeypatch.setattr(Recorded, "log", lambda _self, **_values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        entry.training.end()
    assert entry.training.run is None
    entry.training.begin(framework)  # it is not taken for one that goes on
    assert entry.training.run is recorded
    entry.training.end()
