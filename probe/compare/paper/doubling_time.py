"""The paper's equations (21) to (23), with the intervals that it does not give.

(21) what a gain of time is as a speed-up, with and without the time spent on recomputation;
(22) the factor f by which training got cheaper over some months; (23) the months after which it is
twice as cheap, m·ln 2/ln f. The paper reckons with f = 1.26 over 5 months and prints 14.8 months;
5·ln 2/ln 1.26 is 15.0, and a time that fell by 26.2 % is a factor of 1.356, which gives 11.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def speed_up(percent_saved: float, recompute_share: float = 0.0) -> tuple[float, float]:
    """(net, without recomputation) factors of a gain of time (21).

    Args:
        percent_saved: of the base's time; less than 100.
        recompute_share: of the other run's time.
    """
    left = 1 - percent_saved / 100
    return 1 / left, 1 / (left * (1 - recompute_share))


def doubling_months(factor: float, months: float) -> float | None:
    """(23); None if nothing got cheaper, which never doubles."""
    return months * math.log(2) / math.log(factor) if factor > 1 else None


def doubling_interval(
    percents: Sequence[float], months: float
) -> tuple[float | None, float | None]:
    """Months at the ends of an interval of the gain; an end of None is never."""
    low, high = percents
    ends = [
        doubling_months(speed_up(percent)[0], months) if percent < 100 else 0.0
        for percent in (high, low)
    ]
    return ends[0], ends[1]
