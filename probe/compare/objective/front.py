"""Which configurations no other beats, and of which that is sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..statistics import LEVEL
from . import intervals
from .model import Place
from .quantities import higher_is_better
from .read import Group


def places(
    groups: Sequence[Group], quantities: Sequence[str], excluded: Sequence[str]
) -> dict[str, tuple[Place, list[str]]]:
    """Where each configuration lies, and the names of those whose means beat its own.

    One configuration beats another if its means are as good in all quantities and better in one.
    It dominates it if that is sure: every quantity is better beyond the interval of the
    difference, or the same in every run, and one is better. The intervals hold for all others at
    once (Bonferroni).

    Args:
        excluded: names of configurations that break a constraint; they dominate none.
    """
    placed: dict[str, tuple[Place, list[str]]] = {}
    means = {group.name: _means(group, quantities) for group in groups}
    able = [group for group in groups if group.name not in excluded and means[group.name]]
    level = 1 - (1 - LEVEL) / max(1, len(able) - 1)
    for group in groups:
        own = means[group.name]
        if group.name in excluded:
            placed[group.name] = Place.EXCLUDED, []
        elif own is None:
            placed[group.name] = Place.UNKNOWN, []
        else:
            better = [other for other in able if beats(means[other.name] or {}, own)]
            sure = [other for other in better if _dominates(other, group, quantities, level)]
            place = Place.DOMINATED if sure else Place.TIED if better else Place.FRONT
            placed[group.name] = place, [other.name for other in sure or better]
    return placed


def beats(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """True if one is as small in everything and smaller in something."""
    return all(first[name] <= second[name] for name in second) and any(
        first[name] < second[name] for name in second
    )


def _means(group: Group, quantities: Sequence[str]) -> dict[str, float] | None:
    """Of each quantity, the other way round where more is better."""
    means: dict[str, float] = {}
    for quantity in quantities:
        mean = intervals.mean(group, quantity)
        if mean is None:
            return None
        means[quantity] = -mean.value if higher_is_better(quantity) else mean.value
    return means


def _dominates(first: Group, second: Group, quantities: Sequence[str], level: float) -> bool:
    better = False
    for quantity in quantities:
        more = intervals.difference(first, second, quantity, level)
        if more is None:
            return False
        wanted = 1 if higher_is_better(quantity) else -1
        if more.sign == wanted:
            better = True
        elif not more.is_nothing:
            return False
    return better
