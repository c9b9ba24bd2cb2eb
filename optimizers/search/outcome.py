"""What a training of a search was, and what it took. Data only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Settings = Mapping[str, str | None]  # knob → its value as text; None: the script's own setting


class State(StrEnum):
    """How a training of a search ended. Only one that reached the target has a value."""

    REACHED = "reached"
    MISSED = "missed the target"
    PRUNED = "pruned"
    FAILED = "failed"
    DIVERGED = "diverged"
    HUNG = "hung"
    OUT_OF_BUDGET = "stopped by the budget"
    REFUSED = "refused"
    KNOWN = "known before"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds and joules; joules None: not measured. As a limit: infinite where there is none."""

    seconds: float
    joules: float | None = None

    def plus(self, other: Cost) -> Cost:
        """The sum; joules of those that have some."""
        joules = [each for each in (self.joules, other.joules) if each is not None]
        return Cost(self.seconds + other.seconds, math.fsum(joules) if joules else None)


NOTHING = Cost(0.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a training is stopped.

    ``cost``: what the budget leaves for it; ``hung_s``: seconds after which it hangs; ``value``: it
    is pruned once it cannot come below this value of the objective.
    """

    cost: Cost = Cost(math.inf, math.inf)
    hung_s: float = math.inf
    value: float = math.inf


@dataclass(frozen=True, slots=True)
class Outcome:
    """One training.

    ``value`` is the objective until the target, ``at_least`` what it had spent of it without having
    reached the target; ``cost`` is what the whole process took, which is charged to the budget.
    ``run`` is its run's directory, relative to the search's folder; ``why`` says in one line what
    went wrong.
    """

    state: State
    cost: Cost
    value: float | None = None
    at_least: float | None = None
    run: str | None = None
    why: str = ""

    @property
    def began(self) -> bool:
        """Whether a process was started; another host may have taken the budget before."""
        return self.state not in (State.KNOWN, State.REFUSED) and self.cost != NOTHING


class Part(StrEnum):
    """What a training is for."""

    SEARCH = "search"
    AGAIN = "again"
    PROOF = "proof"


@dataclass(frozen=True, slots=True)
class Training:
    """One training as the store has it; ``outcome`` is None while it runs.

    ``limit`` is what it may cost at most, ``started`` in seconds since 1970. ``block`` counts the
    pairs of the proof. ``place`` is its folder, relative to the search's.
    """

    part: Part
    number: int
    settings: Settings
    seed: int
    host: str
    started: float
    limit: Cost
    block: int | None = None
    place: str = ""
    outcome: Outcome | None = None

    @property
    def charged(self) -> Cost:
        """What it has cost, or may cost while it runs."""
        return self.limit if self.outcome is None else self.outcome.cost


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be trained; ``name`` is the training's among those of the search."""

    name: str
    settings: Settings
    seed: int


def key_of(settings: Settings) -> tuple[tuple[str, str | None], ...]:
    """The same for the same settings."""
    return tuple(sorted(settings.items()))


def is_own(settings: Settings) -> bool:
    """Whether every knob is as the script has it."""
    return all(value is None for value in settings.values())


def written(settings: Settings) -> str:
    """The settings that are not the script's own, in words."""
    changed = [f"{name}={value}" for name, value in settings.items() if value is not None]
    return ", ".join(changed) or "the script's own setting"
