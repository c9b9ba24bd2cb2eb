"""Joules per phase with interval and status, from the statistics of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..model import Status
from .identifiability import Evidence, occupancy, verdict
from .regression.columns import Columns
from .regression.solve import (
    FREE,
    PHASE_SPREAD,
    DurationModel,
    Fit,
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
from .regression.statistics import Candidate, Statistics

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
FEWEST_ROWS = 24  # mixed intervals; with fewer nothing is inferred
# Evidence counts a third: neighbouring rows share errors.
_TEMPER = 3.0
_TEMPER_LENGTHS = 3.0
_VARIES = 0.015  # CV of a phase's duration from which its power may depend on it
_NEGLIGIBLE = 0.01  # weight


@dataclass(frozen=True, slots=True)
class AttributedQuantity:
    """What is attributed: how far phases differ from the mean, relative to it, and from which
    share of the mean an interval counts as wide.
    """

    spread: float = PHASE_SPREAD
    floor: float = 0.0


POWER = AttributedQuantity()
# A unit works in one phase and rests in another; that it rests is worth knowing, too.
ACTIVITY = AttributedQuantity(spread=1.0, floor=1.0)


@dataclass(frozen=True, slots=True)
class PhaseEstimate:
    """Energy of one phase, or of several together, in J; ``why`` names the gate that failed."""

    energy_j: float
    low_j: float
    high_j: float
    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """All phases of a device, in the order of ``codes``; energies add up to the device's.

    ``cov`` is the covariance of their energies, ``prior_cov`` the same had nothing been seen,
    ``timing_j`` their shift by the timing guard.
    """

    codes: tuple[int, ...]
    energy_j: Floats
    cov: Floats
    prior_cov: Floats
    timing_j: Floats
    occupancy: tuple[float | None, ...]
    quantile: float
    lengths: DurationModel
    fitted: Normal  # of the likeliest candidate: what the data say about slices
    powers: Fit
    blur: Floats  # what errors of the update instants add to its gram matrix
    mixed_j: float  # of the intervals that were regressed
    direct_j: Floats  # of intervals inside one phase
    rest_s: Floats  # seconds of which no interval is known
    floor_j: Floats  # energy that an interval is held against at least

    def of(self, *codes: int) -> PhaseEstimate:
        """One phase, or the sum of several."""
        places = [self.codes.index(code) for code in codes]
        pick = np.zeros(len(self.codes))
        pick[places] = 1.0
        energy = float(pick @ self.energy_j)
        variance = max(float(pick @ self.cov @ pick), 0.0)
        half = self.quantile * variance**0.5
        seen = [o for o in (self.occupancy[p] for p in places) if o is not None]
        status, why = verdict(
            Evidence(
                energy_j=energy,
                half_j=half,
                timing_j=abs(float(pick @ self.timing_j)),
                resolution=1 - variance / max(float(pick @ self.prior_cov @ pick), 1e-30),
                occupancy=min(seen, default=None),
                floor_j=float(pick @ self.floor_j),
            )
        )
        return PhaseEstimate(energy, energy - half, energy + half, status, why)


@dataclass(frozen=True, slots=True)
class _Model:
    """One candidate under one assumption about durations."""

    candidate: Candidate
    lengths: DurationModel = field(default_factory=DurationModel)


class _Solver:
    """Solves models of the mixed intervals of one run."""

    def __init__(self, statistics: Statistics, quantity: AttributedQuantity):
        self._spread_of = quantity.spread
        self.columns: Columns = statistics.columns
        self.total_j = statistics.mixed_j
        self._mixed_s = statistics.mixed_s

    def normal(self, model: _Model) -> tuple[Normal, Prior]:
        sums, rows, _ = model.candidate.blocks.full()
        normal = Normal.of(self.columns, sums.sum(0), int(rows.sum()), self._mixed_s, model.lengths)
        return normal, prior_of(normal, self.total_j, self._spread_of)

    def evidence(self, model: _Model) -> float:
        return float(evidence(*self.normal(model)))

    def powers(self, model: _Model) -> tuple[Floats, Floats]:
        """(mean power per owner, slope per free column)."""
        normal, prior = self.normal(model)
        power = fit(normal, prior).power_w
        free = normal.owner == FREE
        energy = np.bincount(normal.owner[~free], (power * normal.time_s)[~free])
        time = np.bincount(normal.owner[~free], normal.time_s[~free])
        return energy / np.maximum(time, 1e-12), power[free]

    def closed(self, model: _Model, share: Floats) -> Floats:
        """Energy per owner; what it misses of the total is spread by ``share``."""
        normal, prior = self.normal(model)
        energy = self._spread(normal) @ fit(normal, prior).power_w
        return np.asarray(energy + share * (self.total_j - float(energy.sum())))

    def full(self, model: _Model) -> tuple[Floats, Floats, Floats, Floats, int]:
        """(closed energies, their covariance, the prior's, how the rest was spread, blocks)."""
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
        """Matrix from the columns' powers to phase energies over the mixed intervals."""
        matrix = np.zeros((len(self.columns.owners), len(normal.owner)))
        owned = np.flatnonzero(normal.owner != FREE)
        matrix[normal.owner[owned], owned] = normal.time_s[owned]
        return matrix


def estimate(
    statistics: Statistics,
    energy_j: float | None,
    seconds: Mapping[int, float],
    quantity: AttributedQuantity = POWER,
) -> Estimate | None:
    """Split a device's energy among phases; None if too little was seen.

    Args:
        statistics: of the device's meter and its rank's spans.
        energy_j: the device's energy over the run, its ends extrapolated; None: what was
            not seen is taken to be as what was.
        seconds: time per phase over the run, the time between spans included.
    """
    columns = statistics.columns
    owners = columns.owners
    if statistics.mixed_rows < FEWEST_ROWS or not statistics.candidates:
        return None
    direct_j, direct_s = statistics.direct()
    solver = _Solver(statistics, quantity)
    ours = [c for c in statistics.candidates if not c.disturb]
    scores = [solver.evidence(_Model(c)) for c in ours]
    best = ours[int(np.argmin(scores))]
    models = _durations(solver, best, _varying(statistics, owners))
    mode = models[0]
    energy, cov, prior_cov, share, blocks = solver.full(mode)
    others = [_Model(c, mode.lengths) for c in ours if c is not best]
    by_drift = _average(solver, mode, others, share, _TEMPER)
    by_length = _average(solver, mode, models[1:], share, _TEMPER_LENGTHS)
    energy = energy + by_drift[0] + by_length[0]
    if statistics.lag_is_unsure:
        cov = cov + _among_lags(solver, mode, ours, share)
    energy = energy + share * (solver.total_j - float(energy.sum()))  # rounding of the averages
    timing = _timing(solver, statistics, mode)
    cov = cov + by_drift[1] + by_length[1] + np.outer(timing, timing)
    normal, prior = solver.normal(_Model(best))
    used_s = statistics.used_s()
    rest_s = np.maximum(_run_s(columns, seconds) - used_s - direct_s, 0.0)
    rest_j = _rest(
        energy + direct_j,
        used_s + direct_s,
        rest_s,
        energy_j,
        solver.total_j + float(direct_j.sum()),
    )
    typical_w = float(prior.mean.max())
    unsure_j = quantity.spread * typical_w * rest_s
    grows = (used_s + direct_s + rest_s) / np.maximum(used_s, 1e-12)
    # What would be unknown of the phases had nothing been seen, all their time included.
    both = (used_s[:, None] > 0) & (used_s[None] > 0)
    prior_cov = np.where(both, prior_cov * np.outer(grows, grows), 0.0) + np.diag(
        np.where(used_s > 0, 0.0, (quantity.spread * typical_w * (direct_s + rest_s)) ** 2)
    )
    return Estimate(
        tuple(owners),
        energy + direct_j + rest_j,
        cov + np.diag(unsure_j**2),
        prior_cov,
        timing,
        tuple(occupancy(statistics.occupancy.get(code)) for code in owners),
        _quantile(blocks),
        mode.lengths,
        normal,
        fit(normal, prior),
        _blur(solver, statistics),
        statistics.mixed_j,
        direct_j,
        rest_s,
        quantity.floor * typical_w * (used_s + direct_s + rest_s),
    )


def _run_s(columns: Columns, seconds: Mapping[int, float]) -> Floats:
    """Seconds per owner, from those per phase."""
    owners = columns.owners
    run_s = np.zeros(len(owners))
    for code, time in seconds.items():
        if code in columns.first:
            run_s[owners.index(columns.owner_of(code))] += time
    return run_s


def _rest(
    known_j: Floats, known_s: Floats, rest_s: Floats, total_j: float | None, seen_j: float
) -> Floats:
    """Energy per phase outside the intervals used: the run's ends, gaps, resets.

    Only its sum is known, at best; phases share it by their power and time.
    """
    mean_w = seen_j / max(float(known_s.sum()), 1e-12)
    energy = np.maximum(known_j, 0.0)
    power = np.where(known_s > 0, energy / np.maximum(known_s, 1e-12), mean_w)
    share = power * rest_s
    if total_j is None:
        return share
    if share.sum() <= 0:
        share = energy
    return np.asarray((total_j - seen_j) * share / max(float(share.sum()), 1e-30))


def _varying(statistics: Statistics, owners: list[int]) -> list[int]:
    varying = []
    for code in owners:
        count, total, square = statistics.moments.get(code, (0.0, 0.0, 0.0))
        if count >= 20 and total > 0:
            mean = total / count
            if square / count - mean**2 > (_VARIES * mean) ** 2:
                varying.append(code)
    return varying


def _durations(solver: _Solver, best: Candidate, varying: list[int]) -> list[_Model]:
    """Assumptions about durations, the likeliest first."""
    models = [_Model(best)]
    if varying:
        models.append(_bounded(solver, best, tuple(varying)))
    if len(varying) > 1:
        models += [_bounded(solver, best, (code,)) for code in varying]
    models.sort(key=solver.evidence)
    return models


def _bounded(solver: _Solver, best: Candidate, free: tuple[int, ...]) -> _Model:
    """The model with these phases free, those that leave [0, 1] put on the bound."""
    fixed: dict[int, float] = {}
    while True:
        model = _Model(best, DurationModel(fixed, free))
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


def _average(
    solver: _Solver, mode: _Model, others: list[_Model], share: Floats, temper: float
) -> tuple[Floats, Floats]:
    """(shift, covariance) that evidence-weighted averaging adds to the mode."""
    base = solver.closed(mode, share)
    if not others:
        return np.zeros(len(base)), np.zeros((len(base), len(base)))
    scores = np.array([solver.evidence(mode), *(solver.evidence(m) for m in others)])
    weights = np.exp(-(scores - scores.min()) / (2 * temper))
    weights /= weights.sum()
    used = [i for i in range(1, len(scores)) if weights[i] > _NEGLIGIBLE]
    shifts = {i: solver.closed(others[i - 1], share) - base for i in used}
    mean = sum((weights[i] * shifts[i] for i in used), np.zeros(len(base)))
    rest = 1 - sum(weights[i] for i in used)
    cov = rest * np.outer(mean, mean)
    for i in used:
        cov = cov + weights[i] * np.outer(shifts[i] - mean, shifts[i] - mean)
    return mean, cov


def _among_lags(solver: _Solver, mode: _Model, ours: list[Candidate], share: Floats) -> Floats:
    """Covariance of the energies over the lags and offsets, none likelier than another."""
    each = np.array(
        [  # every lag was given the first one's gain
            solver.closed(_Model(c, mode.lengths), share) for c in ours if c.gain == ours[0].gain
        ]
    )
    off = each - each.mean(0)
    # Five points at one standard deviation: their spread is 4/5 of a sum of two of them.
    return np.asarray(off.T @ off / max(2, (len(each) - 1) // 2))


def _blur(solver: _Solver, statistics: Statistics) -> Floats:
    """Gram matrix of what the errors of update instants add to the rows (SIMEX: add them again)."""
    same, disturbed = _guarded(statistics)
    base = solver.normal(_Model(same))[0].gram
    if not disturbed:
        return np.zeros_like(base)
    return np.asarray(np.mean([solver.normal(_Model(c))[0].gram for c in disturbed], axis=0) - base)


def _guarded(statistics: Statistics) -> tuple[Candidate, list[Candidate]]:
    """(a candidate, the same with disturbed instants)."""
    disturbed = [c for c in statistics.candidates if c.disturb]
    calm = [c for c in statistics.candidates if not c.disturb]
    if not disturbed:
        return calm[0], []
    first = disturbed[0]
    key = first.gain, first.tau_s, first.offset_s
    return next(c for c in calm if (c.gain, c.tau_s, c.offset_s) == key), disturbed


def _timing(solver: _Solver, statistics: Statistics, mode: _Model) -> Floats:
    """SIMEX guard: what timestamps as noisy again would change, per phase in J."""
    same, disturbed = _guarded(statistics)
    if not disturbed:
        return np.zeros(len(solver.columns.owners))
    base = solver.full(_Model(same, mode.lengths))[0]
    moved = [solver.full(_Model(c, mode.lengths))[0] for c in disturbed]
    return np.asarray(np.mean(moved, axis=0) - base)


def _quantile(blocks: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(blocks - 1, 2), 0.5 + LEVEL / 2))
