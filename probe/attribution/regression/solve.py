"""From block statistics to joules per phase: shrunken least squares, evidence, jackknife.

For one lane (a response and a drift gain) and one assumption about durations and borders the
unknowns are the powers of the slices and what is not known of the response. Given rows
y = X p + noise(σ²) and the prior p ~ N(p̄, S₀)::

    (G + σ² S₀⁻¹) p = g + σ² S₀⁻¹ p̄,   G = XᵀX,  g = Xᵀy

The prior says: a phase's power is within 60 % of the mean power, its slices within 12 % of
each other. Variance: delete-one-block jackknife + the prior's expected bias. The phases'
energies are closed to the measured total along their covariance: E += Σ1 (E_tot − 1ᵀE)/(1ᵀΣ1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from ..columns import Columns

PHASE_SPREAD = 0.6
_SLICE_SPREAD = 0.12
_DURATION_SPREAD = 0.4
BORDER_SPREAD_S = 0.25e-3  # by how much power moves before or after a border is marked
_ITERATIONS = 5
_LEAST_POWER_W = 1e-9
_LEAST_VARIANCE = 1e-9
DURATION, BORDER, RESPONSE = -1, -2, -3  # owners of columns that are no slice of a phase


class Normal(NamedTuple):
    """Normal equations over the p columns solved for.

    Several at once where the sums have leading axes (…).
    """

    gram: Floats  # (…, p, p)
    moment: Floats  # (…, p)
    square: Floats  # (…) Σ y²
    rows: int | Ints  # (…)
    unknowns: Unknowns

    @classmethod
    def of(cls, sums: Floats, rows: int | Ints, unknowns: Unknowns) -> Normal:
        """Normal equations from zᵀz over all columns, (…, n, n); ``rows`` were summed."""
        folded = unknowns.fold.T @ sums @ unknowns.fold
        return cls(folded[..., 1:, 1:], folded[..., 0, 1:], folded[..., 0, 0], rows, unknowns)

    @property
    def time_s(self) -> Floats:
        """Seconds of each slice, (p,); 0 for what is no slice."""
        return self.unknowns.time_s

    @property
    def owner(self) -> Ints:
        """Whose slice it is: place in columns.owners, or DURATION, BORDER, RESPONSE; (p,)."""
        return self.unknowns.owner


class Unknowns(NamedTuple):
    """Which p columns are solved for, and how they come from all that were summed."""

    fold: Floats  # (all + 1, p + 1), the energy in front
    time_s: Floats  # (p,)
    owner: Ints  # (p,)
    border: Ints  # (p,) of a border: the phase (place in columns.owners) that begins; else -1
    total: Floats  # (p,) of each column's seconds; of a border its sum of joules per second


@dataclass(frozen=True, slots=True)
class DurationModel:
    """How a phase's power depends on the duration d of an instance: p (1 + κ (d̄/d − 1)).

    Constant power is κ = 0, constant energy per instance (a wait for others, a power cap)
    κ = 1. ``fixed`` gives κ of a phase, in ``free`` it is a column of its own.
    """

    fixed: dict[int, float] = field(default_factory=dict)
    free: tuple[int, ...] = ()


def unknowns(
    columns: Columns,
    mixed_s: Floats,
    lengths: DurationModel | None = None,
    *,
    extras: int = 0,
    used: Sequence[int] = (),
    borders: bool = False,
) -> Unknowns:
    """Reduce the columns that were summed to those that are solved for.

    With the count column F of a phase, d̄/d − 1 integrates to d̄ F − C: linear in what was
    summed, and zero over the run, so that it moves no energy between phases by itself.

    Args:
        mixed_s: seconds per column, (width,).
        extras: number of columns between the energy and the phases'.
        used: which of these are solved for.
        borders: whether the phases' borders are.
    """
    lengths = lengths or DurationModel()
    owners = columns.owners
    places = [columns.slice_columns(code) for code in owners]
    begun = [code for code in owners if mixed_s[columns.slice_columns(code)].sum() > 0]
    slices = sum(len(p) for p in places)
    total = slices + len(lengths.free) + (len(begun) if borders else 0) + len(used)
    fold = np.zeros((1 + extras + columns.width, total + 1))
    fold[0, 0] = 1.0
    time_s, sum_of = np.zeros(total), np.zeros(total)
    owner, border = np.full(total, DURATION, np.int64), np.full(total, -1, np.int64)
    first = 1 + extras
    at, extra = 0, slices
    for number, (code, place) in enumerate(zip(owners, places, strict=True)):
        here = np.arange(at, at + len(place))
        fold[first + place, 1 + here] = 1.0
        time_s[here] = mixed_s[place]
        owner[here] = number
        seconds = float(mixed_s[place].sum())
        instances = float(mixed_s[columns.count_of[code]])
        if seconds > 0 and instances > 0:
            kappa = lengths.fixed.get(code, 0.0)
            part = kappa * mixed_s[place] / seconds
            fold[np.ix_(first + place, 1 + here)] -= part[None, :]
            fold[first + columns.count_of[code], 1 + here] += part * seconds / instances
            if code in lengths.free:
                fold[first + place, 1 + extra] = -1.0
                fold[first + columns.count_of[code], 1 + extra] = seconds / instances
                extra += 1
        at += len(place)
    sum_of[:slices] = time_s[:slices]
    extra = slices + len(lengths.free)
    for code in begun if borders else ():
        marked = columns.border_of(code)
        fold[first + marked, 1 + extra] = 1.0
        owner[extra], border[extra] = BORDER, owners.index(code)
        sum_of[extra] = mixed_s[marked]
        extra += 1
    for column in used:
        fold[1 + column, 1 + extra] = 1.0
        owner[extra] = RESPONSE
        extra += 1
    return Unknowns(fold, time_s, owner, border, sum_of)


class Prior(NamedTuple):
    """p ~ N(mean (p,), cov (p, p)) of what is solved for, with the inverse of cov (p, p)."""

    mean: Floats
    cov: Floats
    inverse: Floats


def prior_of(
    normal: Normal,
    joules: float,
    spread: float = PHASE_SPREAD,
    response: tuple[Floats, Floats] | None = None,
) -> Prior:
    """The prior, of slices around the mean power of the mixed intervals.

    Args:
        joules: energy of these intervals.
        spread: how far a phase's power differs from the mean, relative to it.
        response: mean (r,) and covariance (r, r) of the response's columns.
    """
    owner = normal.owner
    # Some power, for a counter that has not moved leaves no prior to divide by.
    mean_w = max(joules / max(float(normal.time_s.sum()), 1e-12), _LEAST_POWER_W)
    slices = owner >= 0
    same = (owner[:, None] == owner[None]) & slices[:, None] & slices[None]
    own = np.where(slices, _SLICE_SPREAD**2, _DURATION_SPREAD**2)
    cov = mean_w**2 * (spread**2 * same + np.diag(own))
    mean = np.where(slices, mean_w, 0.0)
    cov[owner == BORDER, owner == BORDER] = BORDER_SPREAD_S**2
    if response is not None:
        places = np.flatnonzero(owner == RESPONSE)
        mean[places] = response[0]
        cov[np.ix_(places, places)] = response[1]
    scale = np.sqrt(np.diag(cov))
    inverse = np.linalg.inv(cov / np.outer(scale, scale)) / np.outer(scale, scale)
    return Prior(mean, cov, inverse)


def evidence(normal: Normal, prior: Prior) -> Floats:
    """−2 log marginal likelihood, up to a constant common to all candidates; (…)."""
    return evidence_and_noise(normal, prior)[0]


def evidence_and_noise(normal: Normal, prior: Prior) -> tuple[Floats, Floats]:
    """The evidence, see :func:`evidence`, and the variance of the noise in J² that it takes; (…).

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
    for _ in range(_ITERATIONS + 1):
        step = moment / (size + variance)
        trace = (size / (size + variance)).sum(-1)
        rest = square - 2 * (moment * step).sum(-1) + (size * step * step).sum(-1)
        variance = np.maximum(rest / np.maximum(n - trace, 1.0), _LEAST_VARIANCE)[..., None]
    explained = (moment**2 / (size + variance)).sum(-1)
    log_determinant = np.log1p(size / variance).sum(-1)
    noise = variance[..., 0]
    unlikely = n * np.log(noise) + log_determinant + (square - explained) / noise
    return np.asarray(unlikely), noise


@dataclass(frozen=True, slots=True)
class Fit:
    """What was solved for, with what is needed to judge it."""

    value: Floats  # (p,): W of slices, s of borders, units of the response's columns
    matrix: Floats  # (p, p) G + σ² S₀⁻¹
    pull: Floats  # (p,) σ² S₀⁻¹ p̄
    ridge: Floats  # (p, p) σ² S₀⁻¹
    sigma2: float  # σ² of the noise, J²


def fit(normal: Normal, prior: Prior) -> Fit:
    """The shrunken values of p columns; the noise is found along with them."""
    gram, moment, n = normal.gram, normal.moment, int(normal.rows)
    ridge = prior.inverse * max(1e-3 * float(normal.square) / max(n, 1), 1e-10)
    sigma2 = 1e-10
    for _ in range(_ITERATIONS):
        solved = np.linalg.solve(
            gram + ridge, np.concatenate([(moment + ridge @ prior.mean)[:, None], gram], axis=1)
        )
        value, trace = solved[:, 0], float(np.trace(solved[:, 1:]))
        rest = normal.square - 2 * moment @ value + value @ gram @ value
        sigma2 = max(float(rest) / max(n - trace, 1.0), 1e-10)
        ridge = sigma2 * prior.inverse
    matrix, pull = gram + ridge, ridge @ prior.mean
    value = np.asarray(np.linalg.solve(matrix, moment + pull), np.float64)
    return Fit(value, matrix, pull, ridge, sigma2)


def covariance(
    fitted: Fit, prior: Prior, normal: Normal, block_gram: Floats, block_moment: Floats
) -> Floats:
    """Covariance of what was solved for, (p, p).

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
