"""How long a rank's steps took: the median from one step's end to the next, and its spread.

The first steps of a training are slow (compilers, caches, clocks); up to twenty of them are left
out, as long as they take half as long again as the usual one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from ..attribution.arrays import Ints
from ..units import NS_PER_S

_MOST_LEFT_OUT = 20
_SLOW = 1.5  # times the median
_BIN = 0.0025  # of a duration's logarithm: a quarter of a per cent


class StepTimesFields(TypedDict):
    """A :class:`StepTimes` as it is stored."""

    median_s: float
    low_s: float
    high_s: float
    left_out: int


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds from step to step: the median, the quartiles, and how many steps were left out."""

    median_s: float
    low_s: float
    high_s: float
    left_out: int

    def as_json(self) -> StepTimesFields:
        """As plain data."""
        return {
            "median_s": self.median_s,
            "low_s": self.low_s,
            "high_s": self.high_s,
            "left_out": self.left_out,
        }


@dataclass(slots=True)
class StepDurations:
    """Sums up durations in bounded memory; fed with the times at which steps closed."""

    _bins: Counter[int] = field(default_factory=Counter)
    _first: list[int] = field(default_factory=list)  # bins of the first durations
    _last_ns: int | None = None

    def add(self, closed_ns: Ints) -> None:
        """Take when more steps closed, sorted."""
        if not len(closed_ns):
            return
        ends = closed_ns if self._last_ns is None else np.insert(closed_ns, 0, self._last_ns)
        self._last_ns = int(closed_ns[-1])
        durations = np.maximum(np.diff(ends.astype(np.int64)), 1)
        bins = np.round(np.log(durations) / _BIN).astype(np.int64)
        self._first += bins[: _MOST_LEFT_OUT - len(self._first)].tolist()
        for number, count in zip(*np.unique(bins, return_counts=True), strict=True):
            self._bins[int(number)] += int(count)

    def times(self) -> StepTimes | None:
        """The median and its spread; None with less than two steps."""
        if not self._bins:
            return None
        usual = _quantile(self._bins, 0.5)
        left_out = 0
        while left_out < len(self._first) and _seconds(self._first[left_out]) > _SLOW * usual:
            left_out += 1
        kept = self._bins - Counter(self._first[:left_out])
        low, median, high = (_quantile(kept, share) for share in (0.25, 0.5, 0.75))
        return StepTimes(median, low, high, left_out)


def _quantile(bins: Counter[int], share: float) -> float:
    numbers = sorted(bins)
    upto = np.cumsum([bins[number] for number in numbers])
    return _seconds(numbers[int(np.searchsorted(upto, share * upto[-1]))])


def _seconds(number: int) -> float:
    return float(np.exp(number * _BIN)) / NS_PER_S
