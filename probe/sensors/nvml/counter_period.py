"""The period of a counter from the times of some of its updates."""

from __future__ import annotations

import itertools

from ...units import NS_PER_MS


def fit_period(mids: list[float]) -> tuple[float, float, float] | None:
    """Straight line through update times of unknown, possibly skipping index.

    Returns:
        (period, fitted time of the last one, largest residual), ns; None without a fit.
    """
    steps = sorted(b - a for a, b in itertools.pairwise(mids))
    if not steps:
        return None
    period = steps[len(steps) // 2]
    if period < 35 * NS_PER_MS:  # a 10 ms bracket blurs single steps; their mean is unbiased
        short = [step for step in steps if step < 1.5 * period]
        period = sum(short) / len(short)
    if period <= 0:
        return None
    origin = mids[0]
    index = [0.0]
    for a, b in itertools.pairwise(mids):
        index.append(index[-1] + max(1, round((b - a) / period)))
    for _ in range(3):
        count = len(mids)
        mean_i, mean_t = sum(index) / count, sum(m - origin for m in mids) / count
        square = sum((i - mean_i) ** 2 for i in index)
        if square == 0:
            return None
        cross = sum((i - mean_i) * (m - origin - mean_t) for i, m in zip(index, mids, strict=True))
        period = cross / square
        start = origin + mean_t - period * mean_i
        if period <= 0:
            return None
        index = [float(round((m - start) / period)) for m in mids]
    worst = max(abs(m - start - period * i) for i, m in zip(index, mids, strict=True))
    return period, start + period * index[-1], worst
