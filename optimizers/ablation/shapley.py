"""Who of several players made how much of a gain (Shapley 1953), where not every set can play.

A game gives the worth of each set of players; worths may be arrays, so that one call attributes
every cell of a comparison at once. What a player adds is averaged over the orders in which players
can join. Sets that cannot play (techniques that conflict, or need each other) leave only orders
that pass through sets which can; over those the worths still add up to that of all players.
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
    """All subsets of the players, small ones first."""
    return [
        frozenset(members)
        for size in range(len(players) + 1)
        for members in combinations(players, size)
    ]


def orders(players: Sequence[str], valid: Valid) -> list[tuple[str, ...]]:
    """Orders of joining that pass through valid sets only; at most :data:`EXACT` players."""
    return [order for order in permutations(players) if _passes(order, valid)]


def sampled_orders(
    players: Sequence[str], valid: Valid, number: int, chance: random.Random
) -> list[tuple[str, ...]]:
    """Random orders that pass through valid sets, each with its reverse where that is valid too.

    With both, what a player adds early and what it adds late cancel in part.

    Raises:
        ValueError: hardly any order is valid.
    """
    sampled: list[tuple[str, ...]] = []
    for _ in range(1000 * number):
        order = list(players)
        chance.shuffle(order)
        for drawn in (tuple(order), tuple(reversed(order))):
            if len(sampled) < number and _passes(drawn, valid):
                sampled.append(drawn)
        if len(sampled) == number:
            return sampled
    raise ValueError("hardly any order passes through sets that can run")


def _passes(order: tuple[str, ...], valid: Valid) -> bool:
    """Whether every set on the way from the empty set to all players is valid."""
    return all(valid(frozenset(order[:size])) for size in range(len(order) + 1))


def values(worth: Mapping[Set, Floats], over: Iterable[Sequence[str]]) -> dict[str, Floats]:
    """Player → mean of what it adds over the orders; the sum is the worth of all players.

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
    """Pair → how much more two players are worth together than apart.

    The Shapley interaction index (Grabisch and Roubens 1999), over the sets for which the worths
    with both, with either and with neither player are given.
    """
    by_pair: dict[tuple[str, str], Floats] = {}
    for a, b in combinations(players, 2):
        others = [player for player in players if player not in (a, b)]
        total: Floats = np.zeros(())
        weights = 0.0
        for joined in subsets(others):
            corners = [joined | {a, b}, joined | {a}, joined | {b}, joined]
            if any(corner not in worth for corner in corners):
                continue
            weight = (
                math.factorial(len(joined))
                * math.factorial(len(others) - len(joined))
                / math.factorial(len(others) + 1)
            )
            both, first, second, none = (worth[corner] for corner in corners)
            total = total + weight * (both - first - second + none)
            weights += weight
        if weights > 0:
            by_pair[a, b] = total / weights
    return by_pair
