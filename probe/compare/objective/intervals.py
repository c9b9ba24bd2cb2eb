"""How sure a mean, a score and a difference of configurations are.

Each is a sum of what single runs contribute. Runs of several configurations that share a block (a
seed) are added up block by block; else each configuration is a group of its own, with degrees of
freedom by Welch and Satterthwaite (:class:`probe.compare.statistics.Contrast`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...attribution.arrays import Floats
from ..gain import Interval
from ..statistics import FEWEST_RUNS, LEVEL, Contrast
from .quantities import METERED
from .read import Group, RunCost

Parts = Sequence[tuple[Group, Floats]]
Costs = Sequence[tuple[str, float]]  # quantities with their weights


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the half-width of its interval: 0 if no run differs, None with too few runs."""

    value: float
    half: float | None

    @property
    def interval(self) -> Interval | None:
        """None with too few runs; none has zero width, since equal runs show no spread."""
        if not self.half:
            return None
        return self.value - self.half, self.value + self.half

    @property
    def sign(self) -> int:
        """1 or −1 if that is sure, 0 if the value is surely 0 or its sign is not sure."""
        if self.half is None or abs(self.value) <= self.half:
            return 0
        return 1 if self.value > 0 else -1

    @property
    def is_nothing(self) -> bool:
        """True if it is 0 in every run."""
        return self.half == 0 and self.value == 0


def estimate(value: float, parts: Parts, meter_half: float = 0.0, level: float = LEVEL) -> Estimate:
    """A value to whose error each run contributes a part.

    Args:
        parts: configurations, with one contribution per run; their means add up to the value, up
            to a constant.
        meter_half: by how much wrong meters may move the value.
        level: of the interval.
    """
    if any(len(group.runs) < FEWEST_RUNS for group, _ in parts):
        return Estimate(value, None)
    columns = tuple(part[:, None] for part in _in_blocks(parts))
    half = float(Contrast(np.array([value]), columns).half(level)[0])
    return Estimate(value, math.hypot(half, meter_half))


def mean(group: Group, quantity: str) -> Estimate | None:
    """Of a configuration; None if one of its runs does not have the quantity.

    The interval of joules holds how far the meters may be off as well.
    """
    values = _values(group, quantity)
    if values is None:
        return None
    average = float(values.mean())
    off = meter_error([group]) * abs(average) if quantity in METERED else 0.0
    return estimate(average, [(group, values)], off)


def score(group: Group, base: Group, weights: Mapping[str, float]) -> Estimate | None:
    """C = Σ w·q/q₀ with q₀ the base's means; None if a weighed quantity is not known.

    To first order C moves with q/q₀ of the runs and with −q̄·q/q₀² of the base's runs. The base's
    own C is the sum of all weights, and has no error.
    """
    costs = _per_unit(base, weights)
    own = None if costs is None else _weighted(group, costs)
    if costs is None or own is None:
        return None
    value = float(own.mean())
    if group is base:
        return Estimate(sum(weight for weight in weights.values() if weight), None)
    of_base = _weighted(base, _moved(group, base, costs))
    if of_base is None:
        return None
    return estimate(value, [(group, own), (base, -of_base)], _off(costs, [group, base], [group]))


def score_difference(
    group: Group, other: Group, base: Group, weights: Mapping[str, float]
) -> Estimate | None:
    """C of a configuration less that of another one; None if one of them is not known."""
    costs = _per_unit(base, weights)
    own = None if costs is None else _weighted(group, costs)
    theirs = None if costs is None else _weighted(other, costs)
    if costs is None or own is None or theirs is None:
        return None
    moves = {name: 0.0 for name, _ in costs}
    for sign, side in ((1.0, group), (-1.0, other)):
        for name, share in _moved(side, base, costs):
            moves[name] += sign * share
    of_base = _weighted(base, list(moves.items()))
    if of_base is None:
        return None
    contributions: dict[int, tuple[Group, Floats]] = {}
    for side, part in ((group, own), (other, -theirs), (base, -of_base)):
        before = contributions.get(id(side))
        contributions[id(side)] = (side, part if before is None else before[1] + part)
    off = _off(costs, [group, other, base], [group, other])
    return estimate(float(own.mean() - theirs.mean()), list(contributions.values()), off)


def difference(group: Group, other: Group, quantity: str, level: float = LEVEL) -> Estimate | None:
    """A quantity's mean less that of another configuration; None if one is not known."""
    own, theirs = _values(group, quantity), _values(other, quantity)
    if own is None or theirs is None:
        return None
    off = 0.0
    if quantity in METERED:
        off = _off([(quantity, 1.0)], [group, other], [group, other])
    value = float(own.mean() - theirs.mean())
    return estimate(value, [(group, own), (other, -theirs)], off, level)


def meter_error(groups: Sequence[Group]) -> float:
    """How far the meters of these runs may be off, as a share."""
    return max((run.meter_error for group in groups for run in group.runs), default=0.0)


def _off(costs: Costs, read: Sequence[Group], added: Sequence[Group]) -> float:
    """By how much meters may move a sum of costs of ``added``; nothing if all were read by one.

    An error of scale that all share cancels in a ratio, and turns no difference's sign.
    """
    if len({run.meters for group in read for run in group.runs}) == 1:
        return 0.0
    sizes = [
        weight * float(values.mean())
        for quantity, weight in costs
        for group in added
        if quantity in METERED and (values := _values(group, quantity)) is not None
    ]
    # A ratio has two sides that may be off, a difference has them in ``sizes``.
    sides = math.sqrt(2) if len(added) == 1 else 1.0
    return sides * meter_error(read) * math.hypot(*sizes)


def _values(group: Group, quantity: str) -> Floats | None:
    return _of_runs(group, lambda run: run.value(quantity))


def _of_runs(group: Group, value: Callable[[RunCost], float | None]) -> Floats | None:
    values = [value(run) for run in group.runs]
    present = [each for each in values if each is not None]
    return np.array(present) if len(present) == len(values) else None


def _weighted(group: Group, costs: Costs) -> Floats | None:
    """Σ weight · quantity of each run."""
    total = np.zeros(len(group.runs))
    for quantity, weight in costs:
        values = _values(group, quantity)
        if values is None:
            return None
        total += weight * values
    return total


def _per_unit(base: Group, weights: Mapping[str, float]) -> Costs | None:
    """Weights of the quantities themselves: w/q₀. None if the base lacks one of them."""
    costs = []
    for quantity, weight in weights.items():
        if weight:
            values = _values(base, quantity)
            if values is None or not values.mean():
                return None
            costs.append((quantity, weight / float(values.mean())))
    return costs


def _moved(group: Group, base: Group, costs: Costs) -> Costs:
    """By how much C of a group falls with each quantity of the base: w·q̄/q₀²."""
    moved = []
    for quantity, weight in costs:
        own, units = _values(group, quantity), _values(base, quantity)
        assert own is not None and units is not None
        moved.append((quantity, weight * float(own.mean() / units.mean())))
    return moved


def _in_blocks(parts: Parts) -> list[Floats]:
    """The contributions added up block by block if all configurations have the same blocks."""
    blocks = [[run.block for run in group.runs] for group, _ in parts]
    first = blocks[0]
    alike = all(
        None not in each and len(set(each)) == len(each) and set(each) == set(first)
        for each in blocks
    )
    if len(parts) < 2 or not alike:
        return [part for _, part in parts]
    places = [[each.index(block) for block in first] for each in blocks]
    return [np.sum([part[at] for (_, part), at in zip(parts, places, strict=True)], axis=0)]
