"""Joules per phase with interval and status, from the statistics of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..model import Status
from .arrays import Floats
from .columns import Columns
from .identifiability import Evidence, occupancy, verdict
from .regression.delay_changes import delay_changes
from .regression.models import Averaged, average, varying_phases
from .regression.solution import Misfit, Solution
from .regression.solve import PHASE_SPREAD
from .regression.statistics import Statistics
from .regression.stretches import stretches
from .response.nuisance import Tie

LEVEL = 0.95
FEWEST_ROWS = 24  # mixed intervals; with fewer nothing is inferred
WIDER = 1.5  # all intervals, where the fit is doubtful
REFUSED_P = 0.001  # a misfit less likely than this refuses all phases
# A part-time sensor's rows hang on the dates of updates, whose errors go on from block to block:
# smaller probabilities are met by chance.
REFUSED_PART_TIME_P = 1e-5
_DELAY_IS_ASSUMED = (Tie.IN_TIME, Tie.KNOWN)
# Of the error that all dates share, where the delay is found from the run and so holds its mean:
# the age of a counter's value may still vary with the steps.
_LEFT_OF_COMMON_ERROR = 0.3


@dataclass(frozen=True, slots=True)
class AttributedQuantity:
    """A quantity that is attributed to phases, relative to its mean.

    ``spread`` is how far phases differ from the mean; an interval is judged against at least
    ``floor`` times the mean.
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
    """The k phases of a device, in the order of ``codes``; energies add up to the device's."""

    codes: tuple[int, ...]
    energy_j: Floats  # (k,)
    cov: Floats  # (k, k) covariance of the energies, in J²
    prior_cov: Floats  # (k, k) the same, had nothing been seen
    timing_j: Floats  # (k,) shift of the energies by the timing guard
    occupancy: tuple[float | None, ...]  # of the phases, see :func:`identifiability.occupancy`
    quantile: float  # half an interval over the standard error
    statistics: Statistics
    # Of the likeliest model, plain: what the data say about powers. One of each stretch in which
    # phases draw the same power, in order.
    solutions: tuple[Solution, ...]
    delay_changes: tuple[bool, ...]  # whether the meter itself changed from stretch to stretch
    beyond: bool  # whether the response lies where no sensor of the family has it
    fit: Misfit  # of the stretch that fits worst
    mixed_j: float  # energy of the intervals that were regressed
    direct_j: Floats  # (k,) energy of intervals inside one phase
    rest_s: Floats  # (k,) seconds of which no interval is known
    floor_j: Floats  # (k,) energy that an interval is held against at least

    @property
    def solution(self) -> Solution:
        """The solution of all of the run, or of its longest stretch."""
        return max(self.solutions, key=lambda each: each.blocks)

    @property
    def changed_s(self) -> list[float]:
        """When phases began to draw another power for good, in s."""
        return [each.statistics.begin_s for each in self.solutions[1:]]

    @property
    def part_time(self) -> bool:
        """True if the meter looks at a part of each period only."""
        return self.solution.part_time

    @property
    def misfit(self) -> bool:
        """True if the readings are not those of a sensor of the family."""
        unlikely = REFUSED_PART_TIME_P if self.part_time else REFUSED_P
        return self.fit.p < unlikely or self.beyond or self.delay_changed

    @property
    def delay_changed(self) -> bool:
        """True if the meter itself was later, or earlier, from some time on."""
        return any(self.delay_changes)

    @property
    def fits_badly(self) -> bool:
        """True if they are perhaps not, in a way that a wider interval does not answer for."""
        return (self.part_time or self.fit.comes_late) and self.fit.doubtful

    @property
    def dates_waver(self) -> bool:
        """True if all dates share an error: that alone makes a misfit."""
        return any(self.statistics.unsure_s) or self.statistics.common_error_s > 0

    @property
    def delay_unknown(self) -> bool:
        """True if nothing tells how late the meter is.

        Where all steps take the same time, a delay turns the step's profile: which of the profiles
        is likelier is no knowledge of the meter.
        """
        inferred = self.statistics.response_from == "run" and self.solution.model.lane.extras > 0
        return inferred and (self.statistics.ambiguous or not varying_phases(self.statistics))

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
                misfit=self.misfit,
                fits_badly=self.fits_badly,
                dates_waver=self.dates_waver,
                response_unknown=self.delay_unknown
                or any(each.lags_before_window for each in self.solutions),
                floor_j=float(pick @ self.floor_j),
            )
        )
        return PhaseEstimate(energy, energy - half, energy + half, status, why)


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
    from scipy.special import stdtrit

    columns = statistics.columns
    owners = columns.owners
    if statistics.mixed_rows < FEWEST_ROWS or not statistics.lanes:
        return None
    direct_j, direct_s = statistics.direct()
    uncut = average(statistics, quantity.spread)
    parts = stretches(statistics, uncut.plain)
    averages = [average(p, quantity.spread) for p in parts] if len(parts) > 1 else [uncut]
    timing = np.sum([a.mode.timing_shift() for a in averages], axis=0)
    fits = [a.mode.solution.misfit() for a in averages]
    cov = np.sum([_cov(a, f, statistics) for a, f in zip(averages, fits, strict=True)], axis=0)
    energy = np.sum([a.energy_j for a in averages], axis=0)
    used_s = statistics.used_s()
    rest_s = np.maximum(_run_s(columns, seconds) - used_s - direct_s, 0.0)
    rest_j = _rest(
        energy + direct_j,
        used_s + direct_s,
        rest_s,
        energy_j,
        statistics.mixed_j + float(direct_j.sum()),
    )
    typical_w = float(uncut.plain.prior.mean.max())
    unsure_j = quantity.spread * typical_w * rest_s
    grows = (used_s + direct_s + rest_s) / np.maximum(used_s, 1e-12)
    # What would be unknown of the phases had nothing been seen, all their time included.
    both = (used_s[:, None] > 0) & (used_s[None] > 0)
    seen_cov = np.sum([a.mode.prior_cov for a in averages], axis=0)
    prior_cov = np.where(both, seen_cov * np.outer(grows, grows), 0.0) + np.diag(
        np.where(used_s > 0, 0.0, (quantity.spread * typical_w * (direct_s + rest_s)) ** 2)
    )
    solutions = tuple(a.plain for a in averages)
    fewest = min(each.blocks for each in solutions)
    return Estimate(
        tuple(owners),
        energy + direct_j + rest_j,
        cov + np.diag(unsure_j**2),
        prior_cov,
        timing,
        tuple(occupancy(statistics.occupancy.get(code)) for code in owners),
        float(stdtrit(max(fewest - 1, 2), 0.5 + LEVEL / 2)),
        statistics,
        solutions,
        tuple(delay_changes(uncut.plain, solutions)),
        any(a.mode.solution.beyond for a in averages),
        min(fits)._replace(p=min(1.0, len(fits) * min(fits).p)),
        statistics.mixed_j,
        direct_j,
        rest_s,
        quantity.floor * typical_w * (used_s + direct_s + rest_s),
    )


def _cov(averaged: Averaged, fit: Misfit, statistics: Statistics) -> Floats:
    """Covariance (k, k) of the energies of one stretch, with what its fit does not know."""
    mode = averaged.mode
    timing = mode.timing_shift()
    delay_s, lag_s = statistics.unsure_s
    assumed = mode.model.lane.tie in _DELAY_IS_ASSUMED  # else the delay that was found holds it
    common_s = statistics.common_error_s * (1.0 if assumed else _LEFT_OF_COMMON_ERROR)
    response_cov = mode.response_cov(math.hypot(delay_s, common_s), lag_s)
    cov = averaged.cov + np.outer(timing, timing) + response_cov
    widened = fit.doubtful or mode.solution.lags_before_window
    return WIDER**2 * cov if widened else cov


def _run_s(columns: Columns, seconds: Mapping[int, float]) -> Floats:
    """Seconds per owner (k,), from those per phase."""
    owners = columns.owners
    run_s = np.zeros(len(owners))
    for code, time in seconds.items():
        if code in columns.first:
            run_s[owners.index(columns.owner_of(code))] += time
    return run_s


def _rest(
    known_j: Floats, known_s: Floats, rest_s: Floats, total_j: float | None, seen_j: float
) -> Floats:
    """Energy in J per phase (k,) outside the intervals used: the run's ends, gaps, resets.

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
