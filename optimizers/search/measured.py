"""What a search knows of each configuration, from the trainings that were done of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from scipy import stats

from .outcome import NOTHING, Cost, Part, Settings, State, Training, is_own, key_of

_PRIOR_SPREAD, _PRIOR_DEGREES = 0.1, 3  # runs of a training differ by about so much
_LEVEL = 0.95
_SAYS_NOTHING = (State.KNOWN, State.INTERRUPTED, State.OUT_OF_BUDGET)


@dataclass(slots=True)
class Configuration:
    """The trainings of the same settings that are over, without those of the proof."""

    settings: Settings
    values: list[float] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    seeds: int = 0  # trainings begun
    failures: int = 0  # that did not reach the target
    why: str = ""

    @property
    def mean(self) -> float:
        """Of the objective, over the trainings that reached the target."""
        return fmean(self.values)

    @property
    def is_sound(self) -> bool:
        """Whether it reached the target every time."""
        return bool(self.values) and not self.failures

    @property
    def cost(self) -> Cost:
        """Of one training, on average."""
        return mean_cost(self.costs)


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """The mean; joules if all have them."""
    if not costs:
        return NOTHING
    joules = [cost.joules for cost in costs if cost.joules is not None]
    return Cost(
        fmean(cost.seconds for cost in costs), fmean(joules) if len(joules) == len(costs) else None
    )


def configurations(trainings: Iterable[Training]) -> list[Configuration]:
    """Every configuration that was trained, in the order of their first trainings."""
    by_key: dict[object, Configuration] = {}
    for training in trainings:
        outcome = training.outcome
        skipped = outcome is not None and outcome.state in _SAYS_NOTHING
        if training.part is Part.PROOF or skipped:
            continue
        each = by_key.setdefault(key_of(training.settings), Configuration(training.settings))
        each.seeds = max(each.seeds, training.seed + 1)
        if outcome is None:
            continue
        if outcome.state is State.REACHED and outcome.value is not None:
            each.values.append(outcome.value)
            each.costs.append(outcome.cost)
        else:
            each.failures += 1
            each.why = outcome.why
    return list(by_key.values())


def default_of(tried: Iterable[Configuration]) -> Configuration | None:
    """The script's own setting, if it was trained."""
    return next((each for each in tried if is_own(each.settings)), None)


def ranked(tried: Iterable[Configuration], fewest: int = 1) -> list[Configuration]:
    """Sound ones with at least so many values, best first."""
    sound = [each for each in tried if each.is_sound and len(each.values) >= fewest]
    return sorted(sound, key=lambda each: each.mean)


def spread(tried: Iterable[Configuration]) -> float:
    """How much trainings of one configuration differ, as a share: pooled, with a weak prior."""
    squares, degrees = _PRIOR_DEGREES * _PRIOR_SPREAD**2, float(_PRIOR_DEGREES)
    for each in tried:
        if len(each.values) > 1:
            squares += sum((value / each.mean - 1) ** 2 for value in each.values)
            degrees += len(each.values) - 1
    return math.sqrt(squares / degrees)


def highest_value(tried: Sequence[Configuration]) -> float:
    """What one more training of the best configuration takes at most, with 95 %; else infinite."""
    best = ranked(tried)
    if not best:
        return math.inf
    runs = len(best[0].values)
    degrees = _PRIOR_DEGREES + sum(len(k.values) - 1 for k in tried if len(k.values) > 1)
    wide = float(stats.t.ppf(_LEVEL, degrees)) * spread(tried) * math.sqrt(1 + 1 / runs)
    return best[0].mean * (1 + wide)
