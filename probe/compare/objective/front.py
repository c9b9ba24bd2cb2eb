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
    found: dict[str, tuple[Place, list[str]]] = {}
    means = {group.name: _means(group, quantities) for group in groups}
    able = [group for group in groups if group.name not in excluded and means[group.name]]
    level = 1 - (1 - LEVEL) / max(1, len(able) - 1)
    for group in groups:
        own = means[group.name]
        if group.name in excluded:
            found[group.name] = Place.EXCLUDED, []
        elif own is None:
            found[group.name] = Place.UNKNOWN, []
        else:
            better = [other for other in able if beats(means[other.name] or {}, own)]
            sure = [other for other in better if _dominates(other, group, quantities, level)]
            place = Place.DOMINATED if sure else Place.TIED if better else Place.FRONT
            found[group.name] = place, [other.name for other in sure or better]
    return found


def beats(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """True if one is as small in everything and smaller in something."""
    return all(one[name] <= other[name] for name in other) and any(
        one[name] < other[name] for name in other
    )


def _means(group: Group, quantities: Sequence[str]) -> dict[str, float] | None:
    """Of each quantity, the other way round where more is better."""
    means: dict[str, float] = {}
    for quantity in quantities:
        known = intervals.mean(group, quantity)
        if known is None:
            return None
        means[quantity] = -known.value if higher_is_better(quantity) else known.value
    return means


def _dominates(one: Group, other: Group, quantities: Sequence[str], level: float) -> bool:
    better = False
    for quantity in quantities:
        more = intervals.difference(one, other, quantity, level)
        if more is None:
            return False
        wanted = 1 if higher_is_better(quantity) else -1
        if more.sign == wanted:
            better = True
        elif not more.is_nothing:
            return False
    return better
