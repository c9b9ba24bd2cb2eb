"""Scores, constraints and the Pareto front of configurations, each from one or several runs.

Runs of one name are one configuration, trained again. A mean has an interval of 95 % by Student's t
over its runs; a cost has one by the delta method, with the baseline's own error in it and the
degrees of freedom of Welch and Satterthwaite. One run has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...errors import UsageError
from ...model import SCHEMA_VERSION
from ...report.model import Interval
from .run_cost import RunCost

TERMS = ("time", "memory", "energy")
_LEVEL = 0.95
_TERM_NAMES = {"energy": "measured energy", "memory": "memory", "time": "time"}


class Met(StrEnum):
    """Whether a constraint holds."""

    YES = "met"
    NO = "not met"
    UNSURE = "cannot be said"  # the limit lies in the interval
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Limit:
    """A constraint: a quantity may be at most, or must be at least, so much in its base unit."""

    quantity: str
    value: float
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Of the runs that have it; ``interval`` is None for one run."""

    value: float
    interval: Interval | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLimit:
    """A constraint and whether a configuration meets it."""

    quantity: str
    limit: float
    at_least: bool
    met: Met


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One configuration. ``cost`` is None where a run lacks a term that is weighed.

    ``beaten_by``: the configuration that is better or equal in all terms and surely better in one;
    ``tied_with``: better or equal in all, but by no more than chance. ``on_front``: neither, and no
    constraint is broken.
    """

    name: str
    runs: tuple[str, ...]
    cost: Mean | None
    quantities: Mapping[str, Mean]
    limits: tuple[CheckedLimit, ...]
    beaten_by: str | None
    tied_with: str | None
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """All configurations, cheapest first; those that break a constraint last."""

    baseline: str
    weights: Mapping[str, float]
    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Configuration:
    """Runs of one configuration."""

    name: str
    runs: Sequence[RunCost]

    def values(self, quantity: str) -> list[float]:
        """Of every run; empty if one of them lacks it."""
        values = [value for run in self.runs if (value := run.quantity(quantity)) is not None]
        return values if len(values) == len(self.runs) else []

    def mean(self, quantity: str) -> Mean | None:
        """None if one of the runs lacks it."""
        values = self.values(quantity)
        return mean(values) if values else None


def objective(
    configurations: Sequence[Configuration],
    weights: Mapping[str, float],
    limits: Sequence[Limit] = (),
) -> Objective:
    """Score configurations against the first one, the baseline.

    Args:
        weights: of time, memory and energy; what is left out weighs nothing.

    Raises:
        UsageError: the baseline lacks what is weighed; no weight is positive.
    """
    weighed = {name: weight for name, weight in weights.items() if weight > 0}
    if not weighed:
        raise UsageError("no term has a weight above 0: --weights time=1,memory=0.5,energy=1")
    base = configurations[0]
    for name in weighed:
        if not base.values(name) or min(base.values(name)) <= 0:
            raise UsageError(
                f"the baseline {base.name} has no {_TERM_NAMES[name]}: "
                f"leave {name} out of --weights"
            )
    checked = [tuple(check(of, limit) for limit in limits) for of in configurations]
    allowed = [
        of
        for of, states in zip(configurations, checked, strict=True)
        if not any(state.met is Met.NO for state in states)
    ]
    scores = []
    for of, states in zip(configurations, checked, strict=True):
        beaten, tied = _rivals(of, [rival for rival in allowed if rival is not of], list(weighed))
        known = bool(all(of.values(name) for name in weighed))
        shown = dict.fromkeys([*TERMS, *(limit.quantity for limit in limits)])
        scores.append(
            Score(
                name=of.name,
                runs=tuple(run.run for run in of.runs),
                cost=cost(of, base, weighed) if known else None,
                quantities={name: value for name in shown if (value := of.mean(name)) is not None},
                limits=states,
                beaten_by=beaten,
                tied_with=tied,
                on_front=of in allowed and known and beaten is None and tied is None,
            )
        )
    single = [of.name for of in configurations if len(of.runs) < 2]
    notes = [f"one run each, so without intervals: {', '.join(single)}"] if single else []
    scores.sort(key=_rank)
    return Objective(
        baseline=base.name, weights=dict(weighed), scores=tuple(scores), notes=tuple(notes)
    )


def _rank(score: Score) -> tuple[bool, float]:
    broken = any(limit.met is Met.NO for limit in score.limits)
    return broken, math.inf if score.cost is None else score.cost.value


def cost(of: Configuration, base: Configuration, weights: Mapping[str, float]) -> Mean:
    """Σ w·x̄/x̄₀ of a configuration that has all terms; of the baseline itself exactly Σ w."""
    names = list(weights)
    weight = np.array([weights[name] for name in names])
    unit = np.array([np.mean(base.values(name)) for name in names])
    value = np.array([np.mean(of.values(name)) for name in names])
    total = float(weight @ (value / unit))
    if of is base:
        return Mean(value=total, interval=None, runs=len(of.runs))
    parts = [_variance(of, names, weight / unit), _variance(base, names, -weight * value / unit**2)]
    interval = None
    if all(part is not None for part in parts):
        interval = _around(total, [part for part in parts if part is not None])
    return Mean(value=total, interval=interval, runs=len(of.runs))


def _variance(
    of: Configuration, names: Sequence[str], slope: np.ndarray
) -> tuple[float, int] | None:
    """(variance of the mean along a direction, degrees of freedom); None for one run."""
    runs = len(of.runs)
    if runs < 2:
        return None
    along = np.array([of.values(name) for name in names]).T @ slope  # one number a run
    return float(np.var(along, ddof=1)) / runs, runs - 1


def _around(value: float, parts: Sequence[tuple[float, int]]) -> Interval:
    from scipy.stats import t

    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return value, value
    freedom = variance**2 / sum(part**2 / of for part, of in parts)
    half = float(t.ppf(0.5 + _LEVEL / 2, freedom)) * math.sqrt(variance)
    return value - half, value + half


def mean(values: Sequence[float]) -> Mean:
    """The mean of one or more values."""
    centre = float(np.mean(values))
    interval = None
    if len(values) > 1:
        spread = float(np.var(values, ddof=1)) / len(values)
        interval = _around(centre, [(spread, len(values) - 1)])
    return Mean(value=centre, interval=interval, runs=len(values))


def check(of: Configuration, limit: Limit) -> CheckedLimit:
    """Whether a configuration meets a constraint; of one run by its value alone."""
    known = of.mean(limit.quantity)
    if known is None:
        met = Met.UNKNOWN
    else:
        low, high = known.interval or (known.value, known.value)
        if limit.at_least:
            low, high, bound = -high, -low, -limit.value
        else:
            bound = limit.value
        met = Met.YES if high <= bound else Met.NO if low > bound else Met.UNSURE
    return CheckedLimit(
        quantity=limit.quantity, limit=limit.value, at_least=limit.at_least, met=met
    )


def _rivals(
    of: Configuration, rivals: Sequence[Configuration], names: Sequence[str]
) -> tuple[str | None, str | None]:
    """(who surely beats it, who is better or equal everywhere by no more than chance)."""
    tied = None
    for rival in rivals:
        pairs = [(of.values(name), rival.values(name)) for name in names]
        if not all(own and other for own, other in pairs):
            continue
        apart = [float(np.mean(own) - np.mean(other)) for own, other in pairs]
        if any(difference < 0 for difference in apart) or not any(apart):
            continue
        if any(_surely_more(own, other) for own, other in pairs):
            return rival.name, None
        tied = tied or rival.name
    return None, tied


def _surely_more(own: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the means differ by more than chance; single runs are taken at their word."""
    difference = float(np.mean(own) - np.mean(other))
    parts = [
        (float(np.var(side, ddof=1)) / len(side), len(side) - 1)
        for side in (own, other)
        if len(side) > 1
    ]
    if not parts:
        return difference > 0
    return _around(difference, parts)[0] > 0
