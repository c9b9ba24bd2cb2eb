"""Where phases begin to draw another power: the stretches of a run that are solved one by one.

A larger batch, a longer sequence, a compiled step or a throttled card changes the power of phases
for good. One power for all of the run is wrong then, and the residual need not show it, for the
duration of phases often changes along. So the blocks of the run are cut in two where two sets of
powers are much likelier than one, and each part again, until no cut is. That the noise is not the
same all the time is no reason: a meter that is irregular for a while is no change of power.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Ints
from .solution import Solution
from .solve import Normal, evidence, evidence_and_noise
from .statistics import Statistics

# −2 ln of the evidence that a cut has to win. Slow drift of power, which the innovations do not
# take out, wins up to 81 (the first seconds on an H100); a batch that doubles 100 to 1000.
LIKELIER = 100.0
# Of that by the powers alone, each part with noise of its own either way. Where a meter is
# irregular for a while they win up to 25; where a batch doubles 95 to 900, seldom 30.
BY_POWERS = 40.0
FEWEST_BLOCKS = 8  # of a stretch: the jackknife is over its blocks
FEWEST_ROWS = 60
_STRIDE = 4  # between the places that are looked at first


def stretches(statistics: Statistics, solution: Solution) -> list[Statistics]:
    """The parts of a run in which phases draw the same power, in order; often only the whole.

    Args:
        solution: of the whole run, plain: which columns are solved for, and what is believed.
    """
    sums, rows, until_s = solution.model.lane.blocks.full()
    borders = _cut(np.cumsum(sums, axis=0), np.cumsum(rows), solution)
    if not borders:
        return [statistics]
    ends_s = [-np.inf, *until_s[borders].tolist(), np.inf]
    return [statistics.between(*ends_s[at : at + 2]) for at in range(len(borders) + 1)]


def _cut(total: np.ndarray, rows: Ints, solution: Solution, first: int = 0) -> list[int]:
    """Blocks after which there is a border, of blocks whose running sums these are.

    Args:
        total: sum of zᵀz up to each block, (b, n, n).
        rows: number of rows up to each block, (b,).
        first: number of the first of these blocks in the run.
    """
    last = len(rows) - 1
    low, high = FEWEST_BLOCKS - 1, last - FEWEST_BLOCKS
    if low > high:
        return []
    uncut = evidence(Normal.of(total[-1], rows[-1:], solution.unknowns), solution.prior)

    def gain(places: Ints) -> np.ndarray:
        halves = (total[places], rows[places]), (total[-1] - total[places], rows[-1] - rows[places])
        together = np.zeros_like(total[places])
        apart, noises = np.zeros((2, len(places)))
        for sums, number in halves:
            normal = Normal.of(sums, number, solution.unknowns)
            unlikely, noise = evidence_and_noise(normal, solution.prior)
            apart += unlikely
            # In units of its own noise; but for these the evidence of a fit is the same.
            together += sums / noise[:, None, None]
            noises += number * np.log(noise)
        normal = Normal.of(together, np.full(len(places), rows[-1]), solution.unknowns)
        by_powers = evidence(normal, solution.prior) + noises - apart
        enough = np.minimum(rows[places], rows[-1] - rows[places]) >= FEWEST_ROWS
        return np.where(enough & (by_powers >= BY_POWERS), uncut - apart, -np.inf)

    places = np.unique(np.append(np.arange(low, high + 1, _STRIDE), high))
    best = int(places[np.argmax(gain(places))])
    places = np.arange(max(low, best - _STRIDE + 1), min(high, best + _STRIDE - 1) + 1)
    gains = gain(places)
    if gains.max() < LIKELIER:
        return []
    best = int(places[np.argmax(gains)])
    after = total[best + 1 :] - total[best], rows[best + 1 :] - rows[best]
    return [
        *_cut(total[: best + 1], rows[: best + 1], solution, first),
        first + best,
        *_cut(*after, solution, first + best + 1),
    ]
