"""Who of several players made how much of a gain (Shapley 1953), where not every set can play.

A game tells the worth of a set of players; worths may be arrays, so that one call attributes every
cell of a comparison at once. What a player adds is averaged over the orders in which players can
join. Sets that cannot play (techniques that conflict, or need each other) leave only orders that
pass through sets which can; over those the worths still add up to that of all players.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Set = frozenset[str]
Valid = Callable[[Set], bool]

EXACT = 5  # players up to which all orders are gone through


def subsets(players: Sequence[str]) -> list[Set]:
    """All of them, small ones first."""
    return [
        frozenset(some) for size in range(len(players) + 1) for some in combinations(players, size)
    ]


def orders(players: Sequence[str], valid: Valid) -> list[tuple[str, ...]]:
    """Orders of joining that pass through valid sets only; at most :data:`EXACT` players."""
    return [
        order
        for order in permutations(players)
        if all(valid(frozenset(order[:size])) for size in range(len(order) + 1))
    ]


def sampled_orders(
    players: Sequence[str], valid: Valid, number: int, chance: random.Random
) -> list[tuple[str, ...]]:
    """So many random orders that pass through valid sets, each with its reverse where that does,
    too: what a player adds early and late then cancels in part.

    Raises:
        ValueError: hardly any order is valid.
    """
    sampled: list[tuple[str, ...]] = []
    for _ in range(1000 * number):
        order = list(players)
        chance.shuffle(order)
        for candidate in (tuple(order), tuple(reversed(order))):
            if len(sampled) < number and all(
                valid(frozenset(candidate[:size])) for size in range(len(candidate) + 1)
            ):
                sampled.append(candidate)
        if len(sampled) == number:
            return sampled
    raise ValueError("hardly any order passes through sets that can run")


def values(worth: Mapping[Set, Floats], over: Iterable[Sequence[str]]) -> dict[str, Floats]:
    """Player → mean of what it adds over the orders; together they are what all are worth.

    Args:
        worth: of every set on the way, the empty one included.
    """
    total: dict[str, Floats] = {}
    number = 0
    for order in over:
        number += 1
        for place, player in enumerate(order):
            before, after = frozenset(order[:place]), frozenset(order[: place + 1])
            total[player] = total.get(player, np.zeros(())) + worth[after] - worth[before]
    return {player: sum_ / number for player, sum_ in total.items()}


def interactions(
    worth: Mapping[Set, Floats], players: Sequence[str]
) -> dict[tuple[str, str], Floats]:
    """Pair → by how much two players do more (or less) together than apart: the Shapley
    interaction index (Grabisch and Roubens 1999), over sets of which all four corners are known.
    """
    by_pair: dict[tuple[str, str], Floats] = {}
    for a, b in combinations(players, 2):
        others = [player for player in players if player not in (a, b)]
        total: Floats = np.zeros(())
        weights = 0.0
        for some in subsets(others):
            corners = [some | {a, b}, some | {a}, some | {b}, some]
            if any(corner not in worth for corner in corners):
                continue
            weight = (
                math.factorial(len(some))
                * math.factorial(len(others) - len(some))
                / math.factorial(len(others) + 1)
            )
            both, first, second, none = (worth[corner] for corner in corners)
            total = total + weight * (both - first - second + none)
            weights += weight
        if weights > 0:
            by_pair[a, b] = total / weights
    return by_pair
