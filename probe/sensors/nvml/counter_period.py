"""The period of a counter from the times of some of its updates."""

from __future__ import annotations

import itertools
import statistics

from ...units import NS_PER_MS


def fit_period(mids: list[float]) -> tuple[float, float, float] | None:
    """Fit a straight line through update times whose numbers are unknown and may skip.

    Args:
        mids: middles of the brackets around updates, ns, ascending.

    Returns:
        (period, fitted time of the last one, largest residual), ns; None without a fit.
    """
    steps = [later - earlier for earlier, later in itertools.pairwise(mids)]
    if not steps:
        return None
    period = statistics.median_high(steps)
    if period < 35 * NS_PER_MS:  # a 10 ms bracket blurs single steps; their mean is unbiased
        period = statistics.fmean(step for step in steps if step < 1.5 * period)
    if period <= 0:
        return None
    counts = (max(1, round(step / period)) for step in steps)
    index: list[int] = list(itertools.accumulate(counts, initial=0))
    since_first = [mid - mids[0] for mid in mids]
    for _ in range(3):
        if index[0] == index[-1]:
            return None
        period, start = statistics.linear_regression(index, since_first)
        if period <= 0:
            return None
        index = [round((time - start) / period) for time in since_first]
    worst = max(abs(t - start - period * i) for i, t in zip(index, since_first, strict=True))
    return period, mids[0] + start + period * index[-1], worst
