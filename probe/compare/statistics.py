"""By how much two groups of runs differ, and how sure that is. Numbers only: no runs, no joules.

Every question that a comparison asks (the total, a cell, its progress, its cost) is one column.
Runs of the same seed block are pairs: Student's t on their differences. Without
blocks each column's mean over all pairs is a two-sample U-statistic, whose variance is that of its
projections on either group (Hoeffding 1948); for a plain difference that is Welch's test, degrees
of freedom by Satterthwaite included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..attribution.arrays import Bools, Floats

Pair = Callable[[int, int], Floats]

LEVEL = 0.95
FEWEST_RUNS = 2
"""Runs that each side needs for an interval and a verdict: one does not show how runs differ."""
FEWEST_FOR_BOOTSTRAP = 10
_RESAMPLES = 4000
_RATIO_NOISE = 1e-7  # of a ratio: its width is a root of what rounding leaves
_NOISE = 1e-12  # of the larger number: what is left of a difference of equal floats


@dataclass(frozen=True, slots=True)
class Contrast:
    """Means of columns, shape (m,), and what each group of runs contributes to their errors.

    ``groups``: arrays (n, m), one for paired blocks, two for two groups of runs; the mean's
    covariance is Σ cov(group)/n.
    """

    value: Floats
    groups: tuple[Floats, ...]

    @property
    def runs(self) -> int:
        """Number of runs in the smallest group."""
        return min(len(group) for group in self.groups)

    @property
    def has_error(self) -> bool:
        """Whether there are enough runs for an interval and a verdict."""
        return self.runs >= FEWEST_RUNS

    def errors(self) -> Floats:
        """Standard errors; infinite with too few runs."""
        if not self.has_error:
            return np.full(len(self.value), math.inf)
        variance = sum(
            (group.var(0, ddof=1) / len(group) for group in self.groups), np.zeros(len(self.value))
        )
        tiny = _NOISE * np.max([np.abs(group).max(0) for group in self.groups], axis=0)
        return np.where(variance > tiny**2, np.sqrt(variance), 0.0)

    def degrees(self) -> Floats:
        """Degrees of freedom of each column (Welch–Satterthwaite)."""
        parts = [group.var(0, ddof=1) / len(group) for group in self.groups]
        below = sum(
            (part**2 / (len(group) - 1) for part, group in zip(parts, self.groups, strict=True)),
            np.zeros(()),
        )
        total = sum(parts, np.zeros(()))
        most = sum(len(group) - 1 for group in self.groups)
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = total**2 / below
        return np.where(np.isfinite(degrees), np.minimum(degrees, most), most)

    def half(self, level: float = LEVEL) -> Floats:
        """Half-widths of the intervals; infinite with too few runs."""
        errors = self.errors()
        if not self.has_error:
            return errors
        return np.asarray(stats.t.ppf(0.5 + level / 2, self.degrees()) * errors)

    def p_values(self) -> Floats:
        """Two-sided, of no difference."""
        errors = self.errors()
        if not self.has_error:
            return np.ones(len(self.value))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(self.value) / errors
        t = np.where(errors > 0, t, np.where(self._nothing(), 0.0, math.inf))
        return np.asarray(2 * stats.t.sf(t, self.degrees()))

    def _nothing(self) -> Bools:
        """Columns in which no run differs from any other."""
        most = np.max([np.abs(group).max(0) for group in self.groups], axis=0)
        return np.asarray(np.abs(self.value) <= _NOISE * most)

    def ratio(self, above: int, below: int) -> tuple[float, float] | None:
        """Fieller's interval of value[above]/value[below]; None if not bounded, or of no width."""
        if not self.has_error:
            return None
        x, y = float(self.value[above]), float(self.value[below])
        covariance = sum(
            (np.cov(group[:, [above, below]].T, ddof=1) / len(group) for group in self.groups),
            np.zeros((2, 2)),
        )
        t = float(stats.t.ppf(0.5 + LEVEL / 2, self.degrees()[below]))
        a = y * y - t * t * covariance[1, 1]
        b = x * y - t * t * covariance[0, 1]
        c = x * x - t * t * covariance[0, 0]
        if a <= 0:
            return None  # the divisor may be zero
        root = math.sqrt(max(b * b - a * c, 0.0))
        # Where both columns vary together, rounding alone is left: no interval has zero width.
        if root <= _RATIO_NOISE * (abs(a) + abs(b)):
            return None
        return (b - root) / a, (b + root) / a

    def bootstrap(self, column: int) -> tuple[float, float] | None:
        """BCa interval of a paired column from ten blocks on, else None; the same every time."""
        if len(self.groups) > 1 or self.runs < FEWEST_FOR_BOOTSTRAP:
            return None
        values = self.groups[0][:, column]
        if np.ptp(values) <= _NOISE * np.abs(values).max():
            return None
        sampled = stats.bootstrap(
            (values,),
            np.mean,
            confidence_level=LEVEL,
            method="BCa",
            n_resamples=_RESAMPLES,
            rng=np.random.default_rng(0),
        )
        low, high = sampled.confidence_interval
        return float(low), float(high)


def paired(differences: Floats) -> Contrast:
    """Of blocks: ``differences`` (n, m), the block's base minus its other run."""
    return Contrast(differences.mean(0), (differences,))


def unpaired(pair: Pair, bases: int, others: int) -> Contrast:
    """Of all pairs of two groups; ``pair(i, j)`` gives the columns of base i against other j."""
    table = np.array([[pair(i, j) for j in range(others)] for i in range(bases)])
    return Contrast(table.mean((0, 1)), (table.mean(1), table.mean(0)))


def contrast(places: Sequence[tuple[int, int]], bases: int, others: int, pair: Pair) -> Contrast:
    """Paired by the blocks at these places; unpaired if there are none.

    Args:
        bases, others: numbers of runs of either side.
        pair: ``pair(i, j)`` gives the columns of base i against other j.
    """
    if places:
        return paired(np.array([pair(i, j) for i, j in places]))
    return unpaired(pair, bases, others)


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Adjusted so that the chance of any false one among them stays what it was (Holm 1979)."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted
