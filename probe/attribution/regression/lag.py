"""How the sensor sees power: its lag and its clock's offset, given or inferred.

Without a calibration the first part of a run decides: every lag and offset of a grid is
fitted to it, and five that stand for the likely ones are carried on as candidates.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..meter.updates import Updates
from .blocks import Innovations
from .columns import MIXED, Columns
from .design import RowBuilder, SpanSlices

GAINS = (0.0, 0.12, 0.25, 0.45)  # of the innovations filter
_TAUS_S = (0.0, 0.003, 0.006, 0.008, 0.011, 0.016, 0.022)
_OFFSETS_S = (-0.002, -0.001, 0.0, 0.001, 0.002)
GRAIN_S = (0.0015, 0.0005)  # the grid's own resolution in lag and offset, one sigma
# Where instants are exact the fit is so close that what the model leaves out decides about lag
# and offset: they are not known better than this, however narrow the posterior looks.
EXACT_GRAIN_S = (0.002, 0.001)
_OFFSET_S = 0.001  # expected size of the offset
_TEMPER = 4.0
_KEPT_GAINS = 2
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class SensorLag:
    """First-order lag of the sensor in s, and how far its clock is ahead of the spans'."""

    tau_s: float
    offset_s: float = 0.0

    LONGEST_TAU_S: ClassVar[float] = max(_TAUS_S)


_USUAL = SensorLag(0.008)


@dataclass(frozen=True, slots=True)
class LagPosterior:
    """What a stretch of data says about (lag, offset): mean (2,) and covariance (2, 2), in s.

    ``gains`` (gains,) are the weights of the innovations filter's gains.
    """

    mean: Floats
    cov: Floats
    gains: Floats


def lag_posterior(
    updates: Updates,
    pieces: SpanSlices,
    columns: Columns,
    usable: npt.NDArray[np.bool_],
    taus_s: Sequence[float] = _TAUS_S,
    offsets_s: Sequence[float] = _OFFSETS_S,
) -> LagPosterior:
    """Fit every lag and offset of a grid to n updates.

    Args:
        pieces, columns: the slices of the spans around the updates, and their columns.
        usable: per update, whether the interval before it can be regressed, (n,).
        taus_s, offsets_s: the grid.
    """
    from .solve import DurationModel, Normal, evidence, prior_of

    keep = usable[1:]
    joules = np.diff(updates.joules)[keep]
    grid = list(itertools.product(taus_s, offsets_s))
    scores = np.empty((len(taus_s), len(offsets_s), len(GAINS)))
    everything = tuple(columns.owners)
    for number, offset in enumerate(offsets_s):
        tables = []
        seconds = np.zeros(columns.width)
        for rows, time in RowBuilder.all_at_once(
            taus_s, updates.time_s + offset, pieces, columns.width
        ):
            seconds = time[keep].sum(0)  # the same for all lags
            tables.append(np.concatenate([joules[:, None], rows[keep]], axis=1))
        # All lags side by side: the filter costs about the same for a wide row as for a narrow.
        side_by_side = np.concatenate(tables, axis=1)
        filters = Innovations(np.array(GAINS), side_by_side.shape[1] - 1)
        filtered = filters.filter(side_by_side).reshape(
            len(GAINS), -1, len(taus_s), columns.width + 1
        )
        whitened = filtered.transpose(2, 0, 1, 3)  # lags, gains, rows, columns
        sums = whitened.swapaxes(-1, -2) @ whitened
        fits = []
        for lengths in (DurationModel(), DurationModel(free=everything)):
            normal = Normal.of(columns, sums, whitened.shape[2], seconds, lengths)
            fits.append(evidence(normal, prior_of(normal, float(joules.sum()))))
        scores[:, number] = np.minimum(*fits) + (offset / _OFFSET_S) ** 2
    weight = np.exp(-(scores - scores.min()) / (2 * _TEMPER)).reshape(len(grid), len(GAINS))
    weight /= weight.sum()
    points = np.array(grid)
    mean = weight.sum(1) @ points
    off = points - mean
    cov = (off * weight.sum(1)[:, None]).T @ off
    return LagPosterior(mean, cov, weight.sum(0))


def likely_lags(
    updates: Updates,
    pieces: SpanSlices,
    columns: Columns,
    pure: npt.NDArray[np.int64],
    grain_s: tuple[float, float] = GRAIN_S,
) -> tuple[list[SensorLag], tuple[float, ...]]:
    """(lags and offsets that explain n updates, the likeliest first; the filter's gains likewise).

    The grid's posterior is carried on by five points: its mean, and one standard deviation
    to either side along both principal axes. Lag and offset trade off.

    Args:
        pure: code of the long phase that fills the interval before an update, or MIXED, (n,).
        grain_s: resolution of the grid in lag and offset, one sigma.
    """
    mixed = (pure == MIXED) & ~updates.fresh
    mixed[0] = False
    if np.count_nonzero(mixed) < _FEWEST:
        return [_USUAL], GAINS
    likely = lag_posterior(updates, pieces, columns, mixed)
    size, direction = np.linalg.eigh(likely.cov + np.diag(grain_s) ** 2)
    steps = (np.sqrt(size) * direction).T
    mean = likely.mean
    around = [mean, *(mean + step for step in steps), *(mean - step for step in steps)]
    lags = [SensorLag(max(0.0, float(p[0])), float(p[1])) for p in around]
    best = np.argsort(-likely.gains)[:_KEPT_GAINS]
    return lags, tuple(GAINS[i] for i in best)
