"""Models of one run's mixed intervals, averaged.

No model is picked: their energies are averaged by evidence, and how far they lie apart is added
to the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Floats
from ..response.nuisance import Tie
from .energies import PhaseEnergies
from .lanes import Lane
from .solution import Model, Solution
from .solve import DurationModel
from .statistics import Statistics

TEMPER = 4.0  # evidence counts a quarter: neighbouring rows share errors
_VARIES = 0.015  # CV of a phase's duration from which its power may depend on it
_LEAST_WEIGHT = 1e-3
# Of a phase's power: from energy that grows faster than duration (long sequences fill a card
# better) to energy that does not depend on it (a wait, a power cap).
_KAPPAS = -0.6, 1.0
# Where a long input lengthens all phases, which of them draws more is hard to tell: that it is one
# alone has to be so much likelier than that all do.
_CLEARER = 10.0

# The model has one curve of power over duration, and a card's own may differ: of the joules that
# the curve moves between phases, so much is their standard error. What it moves counts up to a
# share of a phase's energy: without the curve, one first step of seconds makes powers meaningless.
_CURVE_ERROR, _MOST_MOVED = 0.3, 0.3

Solve = Callable[[Model], Solution]


@dataclass(frozen=True, slots=True)
class Averaged:
    """All models of a run together."""

    mode: PhaseEnergies  # of the likeliest of them
    plain: Solution  # the likeliest without durations and a free kernel
    energy_j: Floats  # (k,)
    cov: Floats  # (k, k)


def average(statistics: Statistics, spread: float) -> Averaged:
    """Solve all models of a run and average them."""

    def solve(model: Model) -> Solution:
        return Solution(statistics, spread, model)

    plain = [solve(Model(lane)) for lane in statistics.lanes]
    best = min(plain, key=lambda s: s.score)
    lane = best.model.lane
    varying = varying_phases(statistics)
    lengths = _duration_models(solve, lane, varying)
    mode = min([best, *lengths], key=lambda s: s.score)
    base = mode.model
    special = []
    if lane.extras:
        special.append(solve(replace(base, borders=True)))
        if lane.tie is not Tie.KNOWN and not mode.part_time:
            special.append(solve(replace(base, free=True)))
    # The other lanes under the durations that this one asks for.
    others = [
        solve(Model(s.model.lane, base.lengths)) if base.lengths != DurationModel() else s
        for s in plain
        if s is not best
    ]
    solutions = [mode, *others, *special, *(s for s in [best, *lengths] if s is not mode)]
    score = np.array([s.score for s in solutions])
    weight = np.exp(-(score - score.min()) / (2 * TEMPER))
    # Which phases' powers depend on durations is one question, however many answers are tried.
    depends = np.array([s.model.lengths != DurationModel() for s in solutions])
    weight[depends] /= max(1, len(lengths))
    weight[weight < _LEAST_WEIGHT] = 0.0
    weight /= weight.sum()
    some = [(PhaseEnergies(s), float(w)) for s, w in zip(solutions, weight, strict=True) if w > 0]
    energy = np.sum([w * e.energy_j for e, w in some], axis=0)
    # What is known of responses and borders is averaged; of durations it is the mode's own.
    alike = [(e, w) for e, w in some if _is_like(e.model, base)] or some
    total = sum(w for _, w in alike)
    cov = np.sum([w / total * e.cov for e, w in alike], axis=0)
    for energies, w in some:
        off = energies.energy_j - energy
        cov = cov + w * np.outer(off, off)
    if base.lengths != DurationModel():
        most = _MOST_MOVED * np.abs(energy)
        moved = np.clip(energy - PhaseEnergies(best).energy_j, -most, most)
        cov = cov + _CURVE_ERROR**2 * np.outer(moved, moved)
    return Averaged(PhaseEnergies(mode), best, energy, cov)


def _is_like(model: Model, other: Model) -> bool:
    return model.lengths == other.lengths and not model.free


def varying_phases(statistics: Statistics) -> list[int]:
    """The phases whose instances differ in duration, so that power may depend on it."""
    varying = []
    for code in statistics.columns.owners:
        count, total, square = statistics.moments.get(code, (0.0, 0.0, 0.0))
        if count >= 20 and total > 0:
            mean = total / count
            if square / count - mean**2 > (_VARIES * mean) ** 2:
                varying.append(code)
    return varying


def _duration_models(solve: Solve, lane: Lane, varying: list[int]) -> list[Solution]:
    """Assumptions about durations: that all varying phases' powers depend on them, or one's."""
    asked = [tuple(varying)] if varying else []
    if len(varying) > 1:
        asked += [(code,) for code in varying]
    solutions: list[Solution] = []
    for free in asked:
        solution = _bounded(solve, lane, free)
        lengths = solution.model.lengths
        again = any(s.model.lengths == lengths for s in solutions)
        clear = not solutions or solution.score < solutions[0].score - _CLEARER
        if (lengths.free or any(lengths.fixed.values())) and clear and not again:
            solutions.append(solution)
    return solutions


def _bounded(solve: Solve, lane: Lane, free: tuple[int, ...]) -> Solution:
    """The model with these phases free, those that leave the range of κ put on its bound."""
    fixed: dict[int, float] = {}
    while True:
        solution = solve(Model(lane, DurationModel(fixed, free)))
        power, slope = solution.powers()
        owners = solution.statistics.columns.owners
        ordered = [c for c in owners if c in free]
        out = {}
        for code, q in zip(ordered, slope.tolist(), strict=False):
            kappa = q / max(power[owners.index(code)], 1e-9)
            if not _KAPPAS[0] <= kappa <= _KAPPAS[1]:
                out[code] = min(max(kappa, _KAPPAS[0]), _KAPPAS[1])
        if not out:
            return solution
        fixed |= {code: kappa for code, kappa in out.items() if kappa}
        free = tuple(c for c in free if c not in out)
