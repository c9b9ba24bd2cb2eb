"""The rows of ``memory`` and ``memory_growth``: what each rank held in its phases, and leaks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..attribution.arrays import Floats
from ..report.model import MemoryGrowth, MemoryRow
from ..timeline.phase_levels import PhaseLevels
from ..timeline.phase_totals import PhaseTotals

_LEFT_OUT = 0.25  # of the blocks of steps: caches fill, optimizers make their state
_FEWEST_BLOCKS = 12
_Z = 1.959963984540054  # of a 95 % interval
_STEADY_P = 0.001
_LEAST_SHARE, _LEAST_BYTES = 0.01, 8 << 20


def memory_rows(levels: Iterable[PhaseLevels], totals: Sequence[PhaseTotals]) -> list[MemoryRow]:
    """A row for each quantity and phase of each rank."""
    names: Mapping[int, PhaseTotals] = {phases.rank: phases for phases in totals}
    return [
        MemoryRow(
            rank=of_gauge.rank,
            device=of_gauge.device,
            quantity=of_gauge.quantity,
            source=of_gauge.source,
            phase=names[of_gauge.rank].name(code),
            mean_bytes=level.mean,
            peak_bytes=level.highest,
            peak_at_most_bytes=level.at_most,
        )
        for of_gauge in levels
        if of_gauge.rank in names
        for code, level in of_gauge.phases.items()
    ]


def growth_rows(levels: Iterable[PhaseLevels]) -> list[MemoryGrowth]:
    """How each level grows from step to step; none where too few steps were seen."""
    rows = (growth(of_gauge) for of_gauge in levels)
    return [row for row in rows if row is not None]


def growth(levels: PhaseLevels) -> MemoryGrowth | None:
    """The slope of the floor: what is held at the lowest moment of a step is held across steps.

    The median of the slopes between all pairs of blocks, with its interval (Sen 1968).
    """
    step, lowest = levels.floor.step, levels.floor.lowest
    keep = step >= step[0] + _LEFT_OUT * (step[-1] - step[0]) if len(step) else step > 0
    step, lowest = step[keep], lowest[keep]
    if len(step) < _FEWEST_BLOCKS:
        return None
    slope, low, high, p_rises = trend(step.astype(np.float64), lowest)
    grown = float(np.median(lowest[-3:]) - np.median(lowest[:3]))
    steady = slope > 0 and p_rises < _STEADY_P
    return MemoryGrowth(
        rank=levels.rank,
        device=levels.device,
        quantity=levels.quantity,
        source=levels.source,
        steps=int(step[-1] - step[0]),
        bytes_per_step=slope,
        bytes_per_step_interval=(low, high),
        grown_bytes=grown,
        grows=steady and grown > max(_LEAST_BYTES, _LEAST_SHARE * float(np.median(lowest))),
    )


def trend(at: Floats, values: Floats) -> tuple[float, float, float, float]:
    """Slope by Theil and Sen, its 95 % interval, and p of Mann and Kendall that nothing rises.

    `scipy.stats` has both; to import it takes half a second and 25 MiB, which every report would
    pay. They agree in `tests/unit/probe/timeline/test_phase_levels.py`.

    Args:
        at: places, all different.
        values: one for each.
    """
    first, second = np.triu_indices(len(at), 1)
    rises = values[second] - values[first]
    slopes = np.sort(rises / (at[second] - at[first]))
    number = len(at)
    ties = np.unique(values, return_counts=True)[1].astype(float)
    variance = number * (number - 1) * (2 * number + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()
    sigma = math.sqrt(variance / 18)
    upper = min(round((len(slopes) + _Z * sigma) / 2), len(slopes) - 1)
    lower = max(round((len(slopes) - _Z * sigma) / 2) - 1, 0)
    # One step of the sum is 2, so that half of it is 1: the correction for continuity.
    z = (float(np.sign(rises).sum()) - 1) / sigma if sigma else 0.0
    p_rises = math.erfc(z / math.sqrt(2)) / 2
    return float(np.median(slopes)), float(slopes[lower]), float(slopes[upper]), p_rises
