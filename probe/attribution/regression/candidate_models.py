"""Models of one run's mixed intervals: a candidate each, under an assumption about durations.

:class:`Solver` solves them; the functions below say which assumptions to try, how solutions are
averaged by their evidence, and what lag and update instants that are not known well add.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import Floats
from .columns import Columns
from .solve import (
    FREE,
    DurationModel,
    Normal,
    Prior,
    along,
    close,
    covariance,
    evidence,
    fit,
    folding,
    prior_of,
)
from .statistics import Candidate, Statistics

_TEMPER = 3.0  # evidence counts a third: neighbouring rows share errors
_VARIES = 0.015  # CV of a phase's duration from which its power may depend on it
_NEGLIGIBLE = 0.01  # weight


@dataclass(frozen=True, slots=True)
class Model:
    """One candidate under one assumption about durations."""

    candidate: Candidate
    lengths: DurationModel = field(default_factory=DurationModel)


class Solver:
    """Solves models of one run's mixed intervals; k phases own the p columns solved for."""

    def __init__(self, statistics: Statistics, spread: float):
        self._prior_spread = spread
        self.columns: Columns = statistics.columns
        self.total_j = statistics.mixed_j
        self._mixed_s = statistics.mixed_s

    def normal(self, model: Model) -> tuple[Normal, Prior]:
        """Normal equations of a model, and its prior."""
        sums, rows, _ = model.candidate.blocks.full()
        normal = Normal.of(self.columns, sums.sum(0), int(rows.sum()), self._mixed_s, model.lengths)
        return normal, prior_of(normal, self.total_j, self._prior_spread)

    def evidence(self, model: Model) -> float:
        """−2 log marginal likelihood: the smaller, the likelier."""
        return float(evidence(*self.normal(model)))

    def powers(self, model: Model) -> tuple[Floats, Floats]:
        """(mean power per owner in W, (k,); slope per free column in W, one for each)."""
        normal, prior = self.normal(model)
        power = fit(normal, prior).power_w
        free = normal.owner == FREE
        energy = np.bincount(normal.owner[~free], (power * normal.time_s)[~free])
        time = np.bincount(normal.owner[~free], normal.time_s[~free])
        return energy / np.maximum(time, 1e-12), power[free]

    def closed(self, model: Model, share: Floats) -> Floats:
        """Energy per owner in J, (k,); what it misses of the total is spread by ``share`` (k,)."""
        normal, prior = self.normal(model)
        energy = self._spread(normal) @ fit(normal, prior).power_w
        return np.asarray(energy + share * (self.total_j - float(energy.sum())))

    def full(self, model: Model) -> tuple[Floats, Floats, Floats, Floats, int]:
        """Solve a model with its covariance.

        Returns:
            (energies in J that add up to the total (k,), their covariance in J² (k, k), the
            prior's (k, k), the share of each in what was missing (k,), number of blocks).
        """
        normal, prior = self.normal(model)
        fitted = fit(normal, prior)
        sums, rows, _ = model.candidate.blocks.full()
        fold, _, _ = folding(self.columns, self._mixed_s, model.lengths)
        parts = fold.T @ sums @ fold
        cov = covariance(fitted, prior, normal, parts[:, 1:, 1:], parts[:, 0, 1:])
        matrix = self._spread(normal)
        spread = matrix @ cov @ matrix.T
        energy, closed = close(matrix @ fitted.power_w, spread, self.total_j)
        _, prior_cov = close(energy, matrix @ prior.cov @ matrix.T, self.total_j)
        return energy, closed, prior_cov, along(spread), len(rows)

    def _spread(self, normal: Normal) -> Floats:
        """Matrix (k, p) from the columns' powers to phase energies over the mixed intervals."""
        matrix = np.zeros((len(self.columns.owners), len(normal.owner)))
        owned = np.flatnonzero(normal.owner != FREE)
        matrix[normal.owner[owned], owned] = normal.time_s[owned]
        return matrix


def varying_phases(statistics: Statistics, owners: list[int]) -> list[int]:
    """The phases whose instances differ in duration, so that power may depend on it."""
    varying = []
    for code in owners:
        count, total, square = statistics.moments.get(code, (0.0, 0.0, 0.0))
        if count >= 20 and total > 0:
            mean = total / count
            if square / count - mean**2 > (_VARIES * mean) ** 2:
                varying.append(code)
    return varying


def duration_models(solver: Solver, best: Candidate, varying: list[int]) -> list[Model]:
    """Assumptions about durations, the likeliest first."""
    models = [Model(best)]
    if varying:
        models.append(_bounded(solver, best, tuple(varying)))
    if len(varying) > 1:
        models += [_bounded(solver, best, (code,)) for code in varying]
    models.sort(key=solver.evidence)
    return models


def _bounded(solver: Solver, best: Candidate, free: tuple[int, ...]) -> Model:
    """The model with these phases free, those that leave [0, 1] put on the bound."""
    fixed: dict[int, float] = {}
    while True:
        model = Model(best, DurationModel(fixed, free))
        power, slope = solver.powers(model)
        owners = solver.columns.owners
        ordered = [c for c in owners if c in free]
        out = {}
        for code, q in zip(ordered, slope.tolist(), strict=True):
            if q < 0:
                out[code] = 0.0
            elif q > power[owners.index(code)]:
                out[code] = 1.0
        if not out:
            return model
        fixed = fixed | out
        free = tuple(c for c in free if c not in out)


def averaged(
    solver: Solver, mode: Model, others: list[Model], share: Floats
) -> tuple[Floats, Floats]:
    """(shift in J (k,), covariance in J² (k, k)) that averaging by evidence adds to the mode."""
    base = solver.closed(mode, share)
    if not others:
        return np.zeros(len(base)), np.zeros((len(base), len(base)))
    scores = np.array([solver.evidence(mode), *(solver.evidence(m) for m in others)])
    weights = np.exp(-(scores - scores.min()) / (2 * _TEMPER))
    weights /= weights.sum()
    used = [i for i in range(1, len(scores)) if weights[i] > _NEGLIGIBLE]
    shifts = {i: solver.closed(others[i - 1], share) - base for i in used}
    mean = sum((weights[i] * shifts[i] for i in used), np.zeros(len(base)))
    rest = 1 - sum(weights[i] for i in used)
    cov = rest * np.outer(mean, mean)
    for i in used:
        cov = cov + weights[i] * np.outer(shifts[i] - mean, shifts[i] - mean)
    return mean, cov


def spread_among_lags(solver: Solver, mode: Model, ours: list[Candidate], share: Floats) -> Floats:
    """Covariance of the energies, in J² (k, k), over lags and offsets that are all as likely."""
    each = np.array(
        [  # every lag was given the first one's gain
            solver.closed(Model(c, mode.lengths), share) for c in ours if c.gain == ours[0].gain
        ]
    )
    off = each - each.mean(0)
    # Five points at one standard deviation: their spread is 4/5 of a sum of two of them.
    return np.asarray(off.T @ off / max(2, (len(each) - 1) // 2))


def timing_blur(solver: Solver, statistics: Statistics) -> Floats:
    """Gram matrix (p, p) of what errors of update instants add (SIMEX: add them again)."""
    same, disturbed = _guarded(statistics)
    base = solver.normal(Model(same))[0].gram
    if not disturbed:
        return np.zeros_like(base)
    return np.asarray(np.mean([solver.normal(Model(c))[0].gram for c in disturbed], axis=0) - base)


def _guarded(statistics: Statistics) -> tuple[Candidate, list[Candidate]]:
    """(a candidate, the same with disturbed instants)."""
    disturbed = [c for c in statistics.candidates if c.disturb]
    calm = [c for c in statistics.candidates if not c.disturb]
    if not disturbed:
        return calm[0], []
    first = disturbed[0]
    key = first.gain, first.tau_s, first.offset_s
    return next(c for c in calm if (c.gain, c.tau_s, c.offset_s) == key), disturbed


def timing_shift(solver: Solver, statistics: Statistics, mode: Model) -> Floats:
    """SIMEX guard: what timestamps as noisy again would change, in J per phase (k,)."""
    same, disturbed = _guarded(statistics)
    if not disturbed:
        return np.zeros(len(solver.columns.owners))
    base = solver.full(Model(same, mode.lengths))[0]
    moved = [solver.full(Model(c, mode.lengths))[0] for c in disturbed]
    return np.asarray(np.mean(moved, axis=0) - base)
