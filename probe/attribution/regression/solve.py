"""From block statistics to joules per phase: shrunken least squares, evidence, jackknife.

For one candidate (lag, offset, drift gain) and one assumption about durations the powers p
of the slices have, given rows y = X p + noise(σ²) and the prior p ~ N(p̄, S₀)::

    (G + σ² S₀⁻¹) p = g + σ² S₀⁻¹ p̄,   G = XᵀX,  g = Xᵀy

The prior says: a phase's power is within 60 % of the mean power, its slices within 12 % of
each other. Variance: delete-one-block jackknife + the prior's expected bias. The phases'
energies are closed to the measured total along their covariance: E += Σ1 (E_tot − 1ᵀE)/(1ᵀΣ1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from .columns import Columns

PHASE_SPREAD = 0.6
_SLICE_SPREAD = 0.12
_FREE_SPREAD = 0.4
_ITERATIONS = 4
_LEAST_VARIANCE = 1e-9
FREE = -1  # owner of a column that belongs to no phase's energy


class Normal(NamedTuple):
    """Normal equations over p slices only, with durations' columns folded in.

    Several at once where the sums have leading axes (…).
    """

    gram: Floats  # (…, p, p)
    moment: Floats  # (…, p)
    square: Floats  # (…) Σ y²
    rows: int
    time_s: Floats  # (p,) seconds of each slice
    owner: Ints  # (p,) which phase (place in columns.owners) a slice belongs to

    @classmethod
    def of(
        cls,
        columns: Columns,
        sums: Floats,
        rows: int,
        mixed_s: Floats,
        lengths: DurationModel | None = None,
    ) -> Normal:
        """Normal equations from zᵀz over all columns, (…, width + 1, width + 1).

        Args:
            rows: number of rows that were summed.
            mixed_s: seconds per column in them, (width,).
        """
        fold, time_s, owner = folding(columns, mixed_s, lengths or DurationModel())
        folded = fold.T @ sums @ fold
        return cls(folded[..., 1:, 1:], folded[..., 0, 1:], folded[..., 0, 0], rows, time_s, owner)


@dataclass(frozen=True, slots=True)
class DurationModel:
    """How a phase's power depends on the duration d of an instance: p (1 + κ (d̄/d − 1)).

    Constant power is κ = 0, constant energy per instance (a wait for others, a power cap)
    κ = 1. ``fixed`` gives κ of a phase, in ``free`` it is a column of its own.
    """

    fixed: dict[int, float] = field(default_factory=dict)
    free: tuple[int, ...] = ()


def folding(
    columns: Columns, mixed_s: Floats, lengths: DurationModel
) -> tuple[Floats, Floats, Ints]:
    """Reduce the ``width`` columns to the p that are solved for.

    With the count column F of a phase, d̄/d − 1 integrates to d̄ F − C: linear in what was
    summed, and zero over the run, so that it moves no energy between phases by itself.

    Args:
        mixed_s: seconds per column, (width,).

    Returns:
        (matrix from all columns to the used ones (width + 1, p + 1), seconds of each used one (p,),
        its owner (p,), FREE for a column of durations).
    """
    owners = columns.owners
    places = [columns.slice_columns(code) for code in owners]
    total = sum(len(p) for p in places) + len(lengths.free)
    fold = np.zeros((columns.width + 1, total + 1))
    fold[0, 0] = 1.0
    time_s = np.zeros(total)
    owner = np.full(total, FREE, np.int64)
    at = 0
    extra = total - len(lengths.free)
    for number, (code, place) in enumerate(zip(owners, places, strict=True)):
        here = np.arange(at, at + len(place))
        fold[1 + place, 1 + here] = 1.0
        time_s[here] = mixed_s[place]
        owner[here] = number
        seconds = float(mixed_s[place].sum())
        instances = float(mixed_s[columns.count_of[code]])
        if seconds > 0 and instances > 0:
            kappa = lengths.fixed.get(code, 0.0)
            part = kappa * mixed_s[place] / seconds
            fold[np.ix_(1 + place, 1 + here)] -= part[None, :]
            fold[1 + columns.count_of[code], 1 + here] += part * seconds / instances
            if code in lengths.free:
                fold[1 + place, 1 + extra] = -1.0
                fold[1 + columns.count_of[code], 1 + extra] = seconds / instances
                extra += 1
        at += len(place)
    return fold, time_s, owner


class Prior(NamedTuple):
    """p ~ N(mean (p,), cov (p, p)) of the slices' powers in W, with the inverse of cov (p, p)."""

    mean: Floats
    cov: Floats
    inverse: Floats


def prior_of(normal: Normal, joules: float, spread: float = PHASE_SPREAD) -> Prior:
    """The prior of the slices' powers, around the mean power of the mixed intervals.

    Args:
        joules: energy of these intervals.
        spread: how far a phase's power differs from the mean, relative to it.
    """
    mean_w = joules / max(float(normal.time_s.sum()), 1e-12)
    free = normal.owner == FREE
    same = (normal.owner[:, None] == normal.owner[None]) & ~free
    cov = spread**2 * same + np.diag(np.where(free, _FREE_SPREAD**2, _SLICE_SPREAD**2))
    cov = mean_w**2 * cov
    return Prior(np.where(free, 0.0, mean_w), cov, np.linalg.inv(cov))


def evidence(normal: Normal, prior: Prior) -> Floats:
    """−2 log marginal likelihood, up to a constant common to all candidates; (…).

    In the coordinates where the prior is white and the gram matrix diagonal (λ), every
    further step costs p numbers.
    """
    n = normal.rows
    bent = normal.gram @ prior.mean
    square = normal.square - 2 * normal.moment @ prior.mean + bent @ prior.mean
    white = np.linalg.cholesky(prior.cov)
    size, direction = np.linalg.eigh(white.T @ normal.gram @ white)
    size = np.maximum(size, 0.0)
    moment = (((normal.moment - bent) @ white)[..., None, :] @ direction)[..., 0, :]
    variance = np.maximum(square / n, _LEAST_VARIANCE)[..., None]
    for _ in range(_ITERATIONS + 2):
        step = moment / (size + variance)
        trace = (size / (size + variance)).sum(-1)
        rest = square - 2 * (moment * step).sum(-1) + (size * step * step).sum(-1)
        variance = np.maximum(rest / np.maximum(n - trace, 1.0), _LEAST_VARIANCE)[..., None]
    explained = (moment**2 / (size + variance)).sum(-1)
    log_determinant = np.log1p(size / variance).sum(-1)
    noise = variance[..., 0]
    return np.asarray(n * np.log(noise) + log_determinant + (square - explained) / noise)


@dataclass(frozen=True, slots=True)
class Fit:
    """Powers of p slices with what is needed to judge them."""

    power_w: Floats  # (p,)
    matrix: Floats  # (p, p) G + σ² S₀⁻¹
    pull: Floats  # (p,) σ² S₀⁻¹ p̄
    ridge: Floats  # (p, p) σ² S₀⁻¹
    sigma2: float  # σ² of the noise, J²


def fit(normal: Normal, prior: Prior) -> Fit:
    """The shrunken powers of p slices; the noise is found along with them."""
    gram, moment, n = normal.gram, normal.moment, normal.rows
    p = len(moment)
    ridge = np.eye(p) * (1e-9 * float(np.trace(gram)) / p)
    sigma2 = 1e-10
    for _ in range(_ITERATIONS):
        solved = np.linalg.solve(
            gram + ridge, np.concatenate([(moment + ridge @ prior.mean)[:, None], gram], axis=1)
        )
        power, trace = solved[:, 0], float(np.trace(solved[:, 1:]))
        rest = normal.square - 2 * moment @ power + power @ gram @ power
        sigma2 = max(float(rest) / max(n - trace, 1.0), 1e-10)
        ridge = sigma2 * prior.inverse
    matrix, pull = gram + ridge, ridge @ prior.mean
    power = np.asarray(np.linalg.solve(matrix, moment + pull), np.float64)
    return Fit(power, matrix, pull, ridge, sigma2)


def covariance(
    fitted: Fit, prior: Prior, normal: Normal, block_gram: Floats, block_moment: Floats
) -> Floats:
    """Covariance of the powers in W², (p, p).

    Jackknife over n blocks, and the squared bias that the prior itself expects.

    Args:
        block_gram: each block's part of the gram matrix, (n, p, p).
        block_moment: and of the moment, (n, p).
    """
    number = len(block_gram)
    left = np.linalg.solve(
        fitted.matrix[None] - block_gram,
        (normal.moment[None] - block_moment + fitted.pull[None])[..., None],
    )[..., 0]
    off = left - left.mean(0)
    jackknife = (number - 1) / number * off.T @ off
    inverse = np.linalg.inv(fitted.matrix)
    bias = inverse @ fitted.ridge @ prior.cov @ fitted.ridge @ inverse
    return np.asarray(jackknife + bias)


def along(cov: Floats) -> Floats:
    """How much of what the sum is off by belongs to each, (k,); adds up to 1."""
    part = cov.sum(1)
    total = float(part.sum())
    return part / total if total > 0 else np.full(len(part), 1 / len(part))


def close(energy: Floats, cov: Floats, total_j: float) -> tuple[Floats, Floats]:
    """Energies that add up to the total, the difference spread along their covariance.

    Args:
        energy: in J, (k,).
        cov: in J², (k, k).

    Returns:
        (energies (k,), their covariance (k, k)).
    """
    share = along(cov)
    keep = np.eye(len(energy)) - np.outer(share, np.ones(len(energy)))
    return energy + share * (total_j - float(energy.sum())), keep @ cov @ keep.T
