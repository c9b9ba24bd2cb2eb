"""Ways of doing the same thing by turns, what each takes more, and bounds of that.

A drift of the machine hits all ways alike, because each block runs each way once, in a new random
order. Beside them the bare way runs a second time ("A/A"): what these two differ by is noise.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from scipy import special, stats

Value = TypeVar("Value")


def by_turns(
    ways: Mapping[str, Callable[[], Value]], blocks: int, warm: int = 0
) -> dict[str, list[Value]]:
    """What each way returns in each block; ``warm`` more blocks come first and are not kept."""
    values: dict[str, list[Value]] = {name: [] for name in ways}
    order = list(ways)
    for block in range(warm + blocks):
        random.shuffle(order)
        for name in order:
            value = ways[name]()
            if block >= warm:
                values[name].append(value)
    return values


def excess(times: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The share by which each way takes longer than the bare one, a value per block.

    ``times`` holds "bare", "A/A" (the bare way again) and other ways. These are compared with the
    mean of both bare ones, A/A with the other.
    """
    both = bare_mean(times)
    return {
        name: [
            value / base - 1
            for value, base in zip(values, times["bare"] if name == "A/A" else both, strict=True)
        ]
        for name, values in times.items()
        if name != "bare"
    }


def bare_mean(times: Mapping[str, Sequence[float]]) -> list[float]:
    """The mean of the two bare ones of each block."""
    return [(a + b) / 2 for a, b in zip(times["bare"], times["A/A"], strict=True)]


def mean_and_bound(values: Sequence[float]) -> tuple[float, float]:
    """Mean and the upper end of its 95 % interval (Student's)."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.inf
    wide = float(special.stdtrit(len(values) - 1, 0.975))
    return mean, mean + wide * statistics.stdev(values) / math.sqrt(len(values))


def median_and_bound(values: Sequence[float]) -> tuple[float, float]:
    """(median, its upper 95 % bound by order statistics); a neighbour's burst moves them little."""
    ordered = sorted(values)
    place = int(stats.binom.ppf(0.95, len(ordered), 0.5))  # one-sided
    return statistics.median(ordered), ordered[min(place, len(ordered) - 1)]
