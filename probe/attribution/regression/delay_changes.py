"""Whether the meter itself changed between the stretches of a run.

A meter that shows power later, or earlier, from some time on looks like a change of powers: energy
moves between phases, and the run is cut there (:mod:`stretches`). No stretch can be trusted then,
for the responses that were tried were found over both. So each stretch is asked how late the meter
is, in two ways: by the response that it is solved with, and by a kernel that may be far from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ..response.nuisance import EXTRAS, LAG_PLACES, LAGS_S
from .lanes import Lane
from .solution import Solution
from .solve import PHASE_SPREAD, RESPONSE, Normal, covariance, fit, prior_of, unknowns
from .statistics import Statistics

# That the delays of two stretches differ so much by chance: by 2.5 standard errors. Where powers
# alone changed, 6 of 137 differ by more; where the delay changed by 10 ms or more, 50 of 53.
_CHANCE = 0.0124
# Standard deviations of the far kernel: its mean delay (ms), its variance (ms²), its other lags.
_MEAN_MS, _VARIANCE_MS2, _LAGS = 10.0, 600.0, 0.3


def delay_changes(run_solution: Solution, stretch_solutions: Sequence[Solution]) -> list[bool]:
    """Whether the meter was later, or earlier, in each stretch than in the one before.

    Args:
        run_solution: all of the run, solved with its likeliest response.
        stretch_solutions: each stretch, solved with its own likeliest response, in order.

    Returns:
        One answer for each stretch but the first. By how much is not known well: no response that
        was tried fits both.
    """
    lane = run_solution.model.lane
    if len(stretch_solutions) < 2 or not lane.extras:
        return [False] * (len(stretch_solutions) - 1)
    ways = [[(s.response.mean_s, s.mean_error_s) for s in stretch_solutions]]
    if lane.extras == EXTRAS and not run_solution.windowed:  # a window has no other lags
        number = next(n for n, each in enumerate(run_solution.statistics.lanes) if each is lane)
        ways.append(
            [_mean_delay(s.statistics, s.statistics.lanes[number]) for s in stretch_solutions]
        )
    borders = len(stretch_solutions) - 1
    most = NormalDist().inv_cdf(1 - _CHANCE / 2 / borders)  # of many, one differs by chance
    return [
        any(_errors_apart(*delays[i : i + 2]) > most for delays in ways) for i in range(borders)
    ]


def _errors_apart(before: tuple[float, float], after: tuple[float, float]) -> float:
    (before_s, error_s), (after_s, after_error_s) = before, after
    return abs(after_s - before_s) / max(math.hypot(error_s, after_error_s), 1e-12)


def _mean_delay(statistics: Statistics, lane: Lane) -> tuple[float, float]:
    """Mean delay beside the lane's, by a kernel that may be far from it; its error, both in s."""
    used = [0, 1, *LAG_PLACES]
    layout = unknowns(statistics.columns, statistics.mixed_s, extras=lane.extras, used=used)
    sums, rows, _ = lane.blocks.full()
    normal = Normal.of(sums.sum(0), int(rows.sum()), layout)
    spread = np.array([_MEAN_MS, _VARIANCE_MS2, *[_LAGS] * len(LAG_PLACES)])
    prior = prior_of(
        normal, statistics.mixed_j, PHASE_SPREAD, (np.zeros(len(used)), np.diag(spread**2))
    )
    fitted = fit(normal, prior)
    parts = layout.fold.T @ sums @ layout.fold
    cov = covariance(fitted, prior, normal, parts[:, 1:, 1:], parts[:, 0, 1:])
    delay_s = np.zeros(len(fitted.value))
    delay_s[layout.owner == RESPONSE] = [1e-3, 0.0, *LAGS_S]
    return float(delay_s @ fitted.value), max(float(delay_s @ cov @ delay_s), 0.0) ** 0.5
