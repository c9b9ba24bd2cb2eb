"""Searches on surfaces of known truth: no process, no clock, the real driver and the real proof."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optuna

from optimizers.search.budget import Budget
from optimizers.search.command_line import CommandLine
from optimizers.search.conclude import Asked, conclude
from optimizers.search.driver import Driver
from optimizers.search.knobs import Choices, Knob
from optimizers.search.objective import Objective
from optimizers.search.outcome import Cost, Job, Limits, Outcome, Settings, State, Training
from optimizers.search.proof import Sides
from optimizers.search.result import SearchResult
from optimizers.search.store import Store
from probe.compare.run_record import EARLY, LATE, Stage, Trial, Use
from probe.compare.sides import Question, Side
from probe.target import Target

TARGET = Target("loss", False, 1.0)
NOISE = 0.05


@dataclass
class Surface:
    """Seconds to the target: each knob's effect, and of some pairs one more, on a log scale."""

    knobs: Sequence[Knob]
    effects: Sequence[np.ndarray]
    pairs: dict[tuple[int, int], np.ndarray]
    base_s: float = 60.0

    @classmethod
    def random(cls, rng: np.random.Generator, levels: Sequence[int], size: float = 0.15) -> Surface:
        """Effects of up to ± ``size`` a level, and as many weak interactions as there are knobs."""
        knobs = [Choices(f"knob{i}", tuple(map(str, range(1, n)))) for i, n in enumerate(levels)]
        effects = [np.append(0.0, rng.uniform(-size, size, n - 1)) for n in levels]
        pairs = {}
        for _ in levels:
            i, j = sorted(rng.choice(len(levels), 2, replace=False))
            pairs[int(i), int(j)] = rng.normal(0, 0.03, (levels[i], levels[j]))
        return cls(knobs, effects, pairs)

    @classmethod
    def flat(cls, levels: Sequence[int]) -> Surface:
        """Nothing makes a difference."""
        knobs = [Choices(f"knob{i}", tuple(map(str, range(1, n)))) for i, n in enumerate(levels)]
        return cls(knobs, [np.zeros(n) for n in levels], {})

    def place(self, settings: Settings) -> tuple[int, ...]:
        return tuple(int(settings[knob.name] or 0) for knob in self.knobs)

    def truth(self, place: Sequence[int]) -> float:
        log = sum(effect[at] for effect, at in zip(self.effects, place, strict=True))
        log += sum(table[place[i], place[j]] for (i, j), table in self.pairs.items())
        return self.base_s * math.exp(log)

    def grid(self) -> np.ndarray:
        """The truth of every configuration."""
        places = itertools.product(*(range(len(effect)) for effect in self.effects))
        return np.array([self.truth(place) for place in places])


Trouble = Callable[[Settings, int], State | None]


def no_trouble(_settings: Settings, _seed: int) -> None:
    return None


@dataclass
class Simulated:
    """Trains in no time: the truth with noise, ended by its limits as a process would be.

    ``ending_s``: as of processes, which keep some seconds of their limit for their end.
    """

    surface: Surface
    rng: np.random.Generator
    trouble: Trouble = no_trouble
    ending_s: float = 0.0
    trained: list[tuple[Job, Outcome]] = field(default_factory=list)

    def refused(self, settings: Settings) -> str:
        return ""

    def train(self, job: Job, limits: Limits) -> Outcome:
        truth = self.surface.truth(self.surface.place(job.settings))
        value = truth * max(0.5, 1 + NOISE * self.rng.normal())
        state = self.trouble(job.settings, job.seed) or State.REACHED
        ends = {
            limits.cost.seconds - self.ending_s: State.OUT_OF_BUDGET,
            limits.hung_s: State.HUNG,
            limits.value: State.PRUNED,
        }
        length = math.inf if state is State.HUNG else value
        stop_s = min(ends)
        if length > stop_s:
            outcome = Outcome(ends[stop_s], Cost(stop_s), at_least=stop_s, why=str(ends[stop_s]))
        elif state is State.REACHED:
            outcome = Outcome(state, Cost(value), value, run=job.name)
        else:
            outcome = Outcome(state, Cost(value / 2), why=str(state))
        self.trained.append((job, outcome))
        return outcome

    def interrupted(self, training: Training) -> Outcome:
        return Outcome(State.INTERRUPTED, Cost(1.0))

    def sides(self, default: Sequence[Training], champion: Sequence[Training]) -> Sides:
        sides = [
            Side(name, [_trial(training) for training in trainings])
            for name, trainings in (("default", default), ("champion", champion))
        ]
        return Sides(*sides, Question(TARGET, metric="loss", higher=False))


def _trial(training: Training) -> Trial:
    assert training.outcome is not None and training.outcome.value is not None
    half = training.outcome.value / 2
    return Trial(
        id=training.place,
        stages={
            EARLY: Stage(500.0, {"forward": Use(half)}),
            LATE: Stage(500.0, {"forward": Use(half)}),
        },
        reached=True,
        stopped=True,
        quality=1.0,
        energy=None,
    )


def search(
    surface: Surface,
    budget: Budget,
    seed: int,
    *,
    trouble: Trouble = no_trouble,
    storage: optuna.storages.BaseStorage | None = None,
    ending_s: float = 0.0,
) -> tuple[SearchResult, Simulated]:
    """A whole search in memory."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    simulated = Simulated(surface, np.random.default_rng([seed, 1]), trouble, ending_s=ending_s)
    store = Store(storage or optuna.storages.InMemoryStorage(), surface.knobs, sampler_seed=seed)
    lines: list[str] = []
    Driver(
        store, simulated, surface.knobs, budget, host="here", say=lines.append, clock=lambda: 0.0
    ).run()
    command = [f"--{knob.name}={{{knob.name}}}" for knob in surface.knobs]
    asked = Asked(
        Objective("time"),
        TARGET,
        budget,
        CommandLine(["train", *command], surface.knobs),
        Path("search"),
    )
    return conclude(asked, store.trainings(), store.proof(), simulated), simulated
