"""One model of a run's mixed intervals, solved.

A model is a lane (a response, a drift gain) under assumptions about durations, about the kernel's
freedom, and about borders: whether power moves exactly when they are marked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from ..response.lack_of_fit import p_value
from ..response.nuisance import (
    ALTERNATIVES,
    DERIVATIVES,
    EXTRAS,
    HALVES,
    LAG_PLACES,
    ODDS,
    SLOW_PLACES,
    THIRDS,
    Tie,
    free_spread,
    may_have_several_windows,
    prior,
)
from ..response.response import Kind, Response
from .lanes import Lane
from .solve import (
    DURATION,
    RESPONSE,
    DurationModel,
    Fit,
    Normal,
    covariance,
    evidence,
    fit,
    prior_of,
    unknowns,
)
from .statistics import Statistics

SHORTER, LONGER = 0.93, 1.07  # than the period, of a window that is not all of the time
MOST_TAU_S, MOST_WINDOW_S, MOST_EARLY_S = 0.08, 1.15, 0.010
# From the lane's response on, and in standard errors: so far the derivatives are no good guides.
MOST_MOVED_S, _MOVED = 0.012, 3.0
_NEAR = 2.0  # standard errors from where the family ends
# A part of the signal that comes late makes joules wrong long before the residual is sure of it.
DOUBTFUL_P, DOUBTFUL_LATE_P = 0.01, 0.03
_CLEAR_LAG_S, _SURE = 0.004, 1.5  # standard errors
_LENGTHS_ODDS, _FREE_ODDS = 2.0, 6.0  # as ODDS, of dependence on durations, of a free kernel
_BORDER_ODDS = -6.0  # real loads are 0.2–0.3 ms shorter than their marks: exact ones are the rarer


@dataclass(frozen=True, slots=True)
class Model:
    """A lane under assumptions."""

    lane: Lane
    lengths: DurationModel = field(default_factory=DurationModel)
    borders: bool = False  # power moves before or after borders are marked
    free: bool = False  # the kernel is none of the family

    @property
    def odds(self) -> float:
        """−2 ln of its weight before anything was seen."""
        odds = ODDS[self.lane.tie] if self.lane.extras else 0.0
        odds += _LENGTHS_ODDS * bool(self.lengths.free or self.lengths.fixed)
        return odds + _BORDER_ODDS * self.borders + _FREE_ODDS * self.free


class Misfit(NamedTuple):
    """How well a fit's residual is that of the right model."""

    p: float  # probability of a misfit as large as this one if the model is right
    comes_late: bool = False  # what it looks like is a part of the signal that comes far later

    @property
    def doubtful(self) -> bool:
        """True if the model is perhaps not the right one."""
        return self.p < (DOUBTFUL_LATE_P if self.comes_late else DOUBTFUL_P)


class Solution:
    """One model, solved; energies are those of the mixed intervals, per owner (k,), in J."""

    def __init__(self, statistics: Statistics, spread: float, model: Model):
        self.model, self.statistics = model, statistics
        lane = model.lane
        used: list[int] = []
        belief: tuple[Floats, Floats] | None = None
        if lane.extras:
            used = list(range(DERIVATIVES))
            mean, cov = prior(lane.response, lane.tie, statistics.period_s)
            if model.free:
                used += LAG_PLACES
                size = len(used)
                wide = np.diag(np.append(np.zeros(DERIVATIVES), free_spread() ** 2))
                wide[:DERIVATIVES, :DERIVATIVES] = cov
                mean, cov = np.append(mean, np.zeros(size - DERIVATIVES)), wide
            belief = mean, cov
        self.unknowns = unknowns(
            statistics.columns,
            statistics.mixed_s,
            model.lengths,
            extras=lane.extras,
            used=used,
            borders=model.borders,
        )
        self._sums, rows, _ = lane.blocks.full()
        self.normal = Normal.of(self._sums.sum(0), int(rows.sum()), self.unknowns)
        self.prior = prior_of(self.normal, statistics.mixed_j, spread, belief)
        self.score = float(evidence(self.normal, self.prior)) + model.odds

    @cached_property
    def fitted(self) -> Fit:
        """Powers and what else is solved for."""
        return fit(self.normal, self.prior)

    @cached_property
    def cov(self) -> Floats:
        """Covariance of what is solved for, (p, p)."""
        parts = self.unknowns.fold.T @ self._sums @ self.unknowns.fold
        return covariance(self.fitted, self.prior, self.normal, parts[:, 1:, 1:], parts[:, 0, 1:])

    @property
    def blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self._sums)

    @property
    def windowed(self) -> bool:
        """True if an update shows a window, of part of the period or more: a total is a sample."""
        return self.model.lane.response.kind is Kind.PART_TIME

    @property
    def part_time(self) -> bool:
        """True if that window is a part of the period only."""
        window_s = self.model.lane.response.part_s
        return self.windowed and window_s < SHORTER * self.statistics.period_s

    @cached_property
    def response(self) -> Response:
        """The lane's response, moved to where all of the run puts it."""
        response = self.model.lane.response
        if not self.model.lane.extras:
            return response
        mean_ms, variance_ms2, third = self.fitted.value[self._derivatives].tolist()
        part_s = response.part_s
        if response.kind is Kind.PART_TIME:
            part_s += third / 1e3
        return response.moved(
            response.mean_s + mean_ms / 1e3, response.variance_s2 + variance_ms2 / 1e6, part_s
        )

    @property
    def mean_error_s(self) -> float:
        """Standard error of the response's mean delay, lag included, in s."""
        if not self.model.lane.extras:
            return 0.0
        place = self._derivatives[0]
        return float(np.sqrt(self.cov[place, place])) / 1e3

    @property
    def response_error_s(self) -> tuple[float, float]:
        """Standard errors of the delay and of the lag (or of a moving average's window), in s."""
        if not self.model.lane.extras:
            return 0.0, 0.0
        mean_ms, variance_ms2 = np.sqrt(np.diag(self.cov)[self._derivatives[:2]]).tolist()
        spread_ms = variance_ms2 / max(2e3 * self.response.variance_s2**0.5, 4.0)
        if self.response.kind is Kind.AVERAGE:
            spread_ms *= 12**0.5
        return float(np.hypot(mean_ms, spread_ms)) / 1e3, spread_ms / 1e3

    @property
    def beyond(self) -> bool:
        """True if the response lies where the family ends, or far from all that were tried."""
        lane, response = self.model.lane, self.response
        if not lane.extras or lane.tie is Tie.KNOWN:
            return False
        mean_error_s, tau_error_s = self.response_error_s
        too_slow = response.tau_s > MOST_TAU_S - _NEAR * tau_error_s and response.tau_s > 0
        too_long = too_slow or response.part_s > MOST_WINDOW_S
        moved_s = abs(response.mean_s - lane.response.mean_s)
        too_far = moved_s > max(MOST_MOVED_S, _MOVED * mean_error_s)
        return too_long or too_far or response.delay_s < -MOST_EARLY_S

    @property
    def lags_before_window(self) -> bool:
        """True if a lag was found before a window: of what shape it is, nothing tells."""
        response = self.response
        lag_error_s = self.response_error_s[1]
        clear = response.tau_s > max(_CLEAR_LAG_S, _SURE * lag_error_s)
        return self.windowed and clear and self.model.lane.tie is not Tie.KNOWN

    @property
    def _derivatives(self) -> Ints:
        return np.flatnonzero(self.unknowns.owner == RESPONSE)[:DERIVATIVES]

    @cached_property
    def slices(self) -> Normal:
        """Normal equations of the slices alone, the rest integrated out as far as it is unknown."""
        own = np.flatnonzero(self.unknowns.owner >= 0)
        rest = np.flatnonzero(self.unknowns.owner < 0)
        gram, moment = self.normal.gram, self.normal.moment
        layout = self.unknowns
        part = layout._replace(
            fold=layout.fold[:, np.append(0, 1 + own)],
            time_s=layout.time_s[own],
            owner=layout.owner[own],
            border=layout.border[own],
            total=layout.total[own],
        )
        inside, square = gram[np.ix_(own, own)], self.normal.square
        if not len(rest):
            return Normal(inside, moment[own], square, self.normal.rows, part)
        across = gram[np.ix_(own, rest)]
        held = gram[np.ix_(rest, rest)] + self.fitted.ridge[np.ix_(rest, rest)]
        right = moment[rest] + self.fitted.pull[rest]
        return Normal(
            inside - across @ np.linalg.solve(held, across.T),
            moment[own] - across @ np.linalg.solve(held, right),
            square - right @ np.linalg.solve(held, right),
            self.normal.rows,
            part,
        )

    def powers(self) -> tuple[Floats, Floats]:
        """(mean power per owner in W, (k,); slope per free duration in W, one for each)."""
        layout = self.unknowns
        slices = layout.owner >= 0
        energy = np.bincount(layout.owner[slices], (self.fitted.value * layout.time_s)[slices])
        time = np.bincount(layout.owner[slices], layout.time_s[slices])
        return energy / np.maximum(time, 1e-12), self.fitted.value[layout.owner == DURATION]

    def column_powers(self, width: int) -> Floats:
        """Power in W of every column, (width,); the mean where none was seen."""
        usual = self.statistics.mixed_j / max(float(self.unknowns.time_s.sum()), 1e-12)
        watts = np.full(width, usual)
        own = np.flatnonzero((self.unknowns.owner >= 0) & (self.unknowns.time_s > 0))
        place = self.unknowns.fold[1 + self.model.lane.extras :, 1 + own].argmax(0)
        watts[place] = self.fitted.value[own]
        return watts

    def blur(self) -> Floats:
        """What errors of the instants add to the gram matrix, (p, p)."""
        lane = self.model.lane
        fold = self.unknowns.fold[1 + lane.extras :, 1:]
        return np.asarray(fold.T @ lane.blur_s2 @ fold)

    def misfit(self) -> Misfit:
        """How well the residual is that of the right model."""
        lane = self.model.lane
        if not lane.extras:
            return Misfit(1.0)
        p = self._p_value(ALTERNATIVES)
        # The dates of a part-time meter's updates have errors that go on for seconds.
        if may_have_several_windows(lane.response, self.statistics.period_s):
            # Two or three windows a period: asked by themselves, for many columns see little.
            several_p = min(self._p_value(HALVES), self._p_value(THIRDS))
            return Misfit(min(1.0, 3 * min(p, several_p)))
        if self.part_time or lane.extras < EXTRAS:
            return Misfit(p)
        late_p = self._p_value(SLOW_PLACES)
        return Misfit(min(1.0, 2 * min(p, late_p)), comes_late=late_p < p)

    def _p_value(self, places: tuple[int, ...]) -> float:
        """Probability of residuals that look so much like these columns of the response's."""
        sums = self._sums
        tested = np.zeros((len(sums[0]), len(places)))
        tested[1 + np.array(places), np.arange(len(places))] = 1.0
        if self.windowed:
            # Its rows hang on the dates of updates, whose errors go on for longer than a block.
            even = len(sums) // 2 * 2
            sums = np.concatenate([sums[:even:2] + sums[1:even:2], sums[even:]])
        solved = self.unknowns.fold[:, 1:]
        return p_value(sums, tested, solved, self.fitted.matrix, self.fitted.value)
