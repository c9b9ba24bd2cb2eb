"""The sides of a comparison and what is asked of them: how good each is, for how much work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..attribution.arrays import Floats
from ..target import Target
from . import TOLERANCE
from .model import ComparedSide, EarlyMark, Quality, TechniqueRow
from .run_record import Trial


@dataclass(frozen=True, slots=True)
class Side:
    """Runs of one kind, under one name."""

    name: str
    trials: Sequence[Trial]

    def named(self) -> ComparedSide:
        """The side's name and ids."""
        return ComparedSide(self.name, [trial.id for trial in self.trials])


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared: the cost of equal work, or the cost of reaching ``target``.

    ``higher`` is True if a higher value of ``metric`` is better, None if no quality is known.
    """

    target: Target | None = None
    tolerance: float = TOLERANCE
    metric: str | None = None
    higher: bool | None = None

    @property
    def mode(self) -> str:
        """What is compared, as the JSON says it."""
        return "equal_work" if self.target is None else "to_target"


def quality(base: Side, other: Side, question: Question) -> Quality:
    """Means of the final values of both sides, and whether the other side is good enough."""
    values = [
        [value for value in side if value is not None]
        for side in final_values(base.trials, other.trials, question)
    ]
    if question.higher is None or not all(values):
        return Quality(question.metric)
    base_mean, other_mean = fmean(values[0]), fmean(values[1])
    percent = (
        100 * (other_mean - base_mean) / abs(base_mean)
        if base_mean
        else (0.0 if other_mean == base_mean else math.inf)
    )
    worse = -percent if question.higher else percent
    return Quality(
        question.metric,
        base_mean,
        other_mean,
        percent if math.isfinite(percent) else None,
        bool(worse <= 100 * question.tolerance),
    )


def final_values(
    base: Sequence[Trial], other: Sequence[Trial], question: Question
) -> list[list[float | None]]:
    """The final value of each run of both sides; None where it was not logged.

    If any run stopped at its target, values beyond the target count as the target: how far a run
    overshot it does not count.
    """
    target = question.target
    stopped = any(trial.stopped for trial in (*base, *other))
    at_most = target.value if target is not None and stopped else None
    return [
        [
            None if trial.quality is None else _no_better(trial.quality, at_most, question.higher)
            for trial in side
        ]
        for side in (base, other)
    ]


def _no_better(quality: float, limit: float | None, higher: bool | None) -> float:
    if limit is None:
        return quality
    return min(quality, limit) if higher else max(quality, limit)


def sample_factors(base: Side, other: Side, question: Question) -> Floats:
    """For equal work, every other run as if it had trained on the base run's samples."""
    factors = np.ones((len(base.trials), len(other.trials)))
    if question.target is None:
        for i, base_trial in enumerate(base.trials):
            for j, theirs in enumerate(other.trials):
                if base_trial.samples > 0 and theirs.samples > 0:
                    factors[i, j] = base_trial.samples / theirs.samples
    return factors


def technique_rows(base: Side, other: Side) -> list[TechniqueRow]:
    """The techniques that one side uses and the other does not, or with other settings."""
    names = dict.fromkeys(
        name for side in (base, other) for trial in side.trials for name in trial.techniques
    )
    rows = [TechniqueRow(name, _settings(base, name), _settings(other, name)) for name in names]
    return [row for row in rows if row.base != row.other]


def _settings(side: Side, technique: str) -> str | None:
    """Of all runs of a side; None if none of them uses the technique."""
    settings = dict.fromkeys(
        trial.techniques[technique] for trial in side.trials if technique in trial.techniques
    )
    return " or ".join(settings) if settings else None


def early_gains(base: Side, other: Side, by: str, total: float | None) -> list[EarlyMark]:
    """What the early stage saves if it ended at another mark."""
    place = 1 if by == "energy" else 0
    rows = []
    for mark in sorted({mark for trial in base.trials for mark in trial.early}):
        sides = [
            [trial.early[mark][place] for trial in side.trials if mark in trial.early]
            for side in (base, other)
        ]
        values = [[value for value in side if value is not None] for side in sides]
        if all(values):
            gained = fmean(values[0]) - fmean(values[1])
            rows.append(EarlyMark(mark, by, gained, gained / total if total else None))
    return rows
