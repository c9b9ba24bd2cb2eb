"""One response, fitted to the first part of a run, and the steps that lead to a better one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Bools, Floats
from ..columns import Columns
from ..regression.blocks import Innovations
from ..regression.solve import (
    RESPONSE,
    DurationModel,
    Normal,
    Unknowns,
    evidence,
    fit,
    prior_of,
    unknowns,
)
from ..response.nuisance import DERIVATIVES, Tie, distance, prior, response_columns
from ..response.response import Kind, Response
from ..response.shown import ShownTime
from ..spans import Spans, cut

LONGEST_TAU_S, LONGEST_MEAN_S = 0.09, 0.16
LONGEST_WINDOW_S = 1.2  # of a power reading
_LONGEST_STEP_MS, _TAU_STEP_MS, _LEAST_STEP_MS2 = 4.0, 20.0, 100.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """The updates of the first part of a run: n + 1 instants, n intervals between them."""

    ends_s: Floats  # (n + 1,)
    joules: Floats  # (n,)
    usable: Bools  # (n,) the intervals that are regressed
    spans: Spans  # around them
    columns: Columns
    period_s: float
    polled: bool = False  # readings of power: means over a window of any length
    hint: Response | None = None  # a start that is worth a look, whatever the grid says

    def without(self, left_out: Bools) -> Stretch:
        """The same without some of the n + 1 updates, neither the first nor the last of them."""
        kept, until_j = ~left_out, np.append(0.0, np.cumsum(self.joules))
        return replace(
            self,
            ends_s=self.ends_s[kept],
            joules=np.diff(until_j[kept]),
            usable=self.usable[kept[1:]],
        )


@dataclass(frozen=True, slots=True)
class Slices:
    """The stretch cut into slices of some columns."""

    shown: ShownTime
    models: tuple[Unknowns, Unknowns]  # powers that do not, and that do depend on durations
    stretch: Stretch

    @classmethod
    def of(cls, stretch: Stretch, columns: Columns) -> Slices:
        """Cut a stretch into the slices that these columns have."""
        shown = ShownTime(
            cut(stretch.spans, columns), columns.width, stretch.period_s, for_many_responses=True
        )
        elapsed = np.diff(shown.elapsed(stretch.ends_s), axis=0)[stretch.usable].sum(0)
        lengths = DurationModel(free=tuple(columns.owners))
        models = unknowns(columns, elapsed), unknowns(columns, elapsed, lengths)
        return cls(shown, models, stretch)

    def rows(self, response: Response) -> Floats:
        """Rows of the usable intervals, (u, width)."""
        return self.shown.rows(self.stretch.ends_s, response)[self.stretch.usable]

    @property
    def joules(self) -> Floats:
        """Energy of the usable intervals, (u,)."""
        return self.stretch.joules[self.stretch.usable]


class Trial:
    """One response fitted to the stretch, and the step that its derivatives propose."""

    def __init__(
        self, slices: Slices, response: Response, tie: Tie, gain: float, *, derive: bool = True
    ):
        self.slices, self.response, self.tie, self.gain = slices, response, tie, gain
        stretch = slices.stretch
        table = np.concatenate([slices.joules[:, None], slices.rows(response)], axis=1)
        white = whitened(table, gain)
        total = float(slices.joules.sum())
        sums = white.T @ white
        scores = [float(score(sums, len(white), u, total)) for u in slices.models]
        layout = slices.models[int(np.argmin(scores))]
        normal = Normal.of(sums, len(white), layout)
        belief = prior_of(normal, total)
        self.score = min(scores)
        self.cost = self.score + distance(response, tie)
        fitted = fit(normal, belief)
        self.watts = _column_powers(layout, slices.shown.width, fitted.value, total)
        self.step: Floats = np.zeros(DERIVATIVES)
        self.step_cov: Floats = np.zeros((DERIVATIVES, DERIVATIVES))
        if not derive:
            return
        per_slice = self.watts[slices.shown.slices.column]
        extra, _ = response_columns(
            slices.shown, per_slice, stretch.ends_s, response, derivatives_only=True
        )
        extra = extra[stretch.usable, :DERIVATIVES]
        white = np.concatenate([white[:, :1], whitened(extra, gain), white[:, 1:]], axis=1)
        size = layout.fold.shape[1]
        fold = np.zeros((white.shape[1], size + DERIVATIVES))
        fold[0, :size] = layout.fold[0]
        fold[1 + DERIVATIVES :, :size] = layout.fold[1:]
        fold[1 + np.arange(DERIVATIVES), size + np.arange(DERIVATIVES)] = 1.0
        more = np.zeros(DERIVATIVES)
        some = Unknowns(
            fold,
            np.append(layout.time_s, more),
            np.append(layout.owner, np.full(DERIVATIVES, RESPONSE)),
            np.append(layout.border, np.full(DERIVATIVES, -1)),
            np.append(layout.total, more),
        )
        joint = Normal.of(white.T @ white, len(white), some)
        belief = prior_of(joint, total, response=prior(response, tie, stretch.period_s))
        fitted = fit(joint, belief)
        self.step = fitted.value[-DERIVATIVES:].copy()
        inverse = np.linalg.inv(fitted.matrix)
        self.step_cov = np.asarray(fitted.sigma2 * inverse[-DERIVATIVES:, -DERIVATIVES:])
        if response.variance_s2 == 0 and self.step[1] < 0:  # on the bound: a step of the mean alone
            self.step[0] -= self.step_cov[0, 1] / self.step_cov[1, 1] * self.step[1]
            self.step[1] = 0.0

    @property
    def residual_j(self) -> Floats:
        """What each interval of the stretch holds more than the fit says, (n,)."""
        shown, stretch = self.slices.shown, self.slices.stretch
        powers = shown.powers(self.watts[shown.slices.column])
        return stretch.joules - shown.energies(powers, stretch.ends_s, self.response)

    def moved(self, scale: float) -> Response:
        """The response a part of the proposed step away, within limits."""
        now = self.response
        limit = max(_TAU_STEP_MS * 2e3 * now.tau_s, _LEAST_STEP_MS2)
        mean = np.clip(self.step[0], -_LONGEST_STEP_MS, _LONGEST_STEP_MS) * scale / 1e3
        variance = np.clip(self.step[1], -limit, limit) * scale / 1e6
        part_s = now.part_s
        if now.kind is Kind.PART_TIME:
            period_s = self.slices.stretch.period_s
            wider_s = np.clip(self.step[2] / 1e3, -0.03 * period_s, 0.03 * period_s) * scale
            widest_s = LONGEST_WINDOW_S if self.slices.stretch.polled else 0.97 * period_s
            part_s = float(np.clip(part_s + wider_s, 0.03 * period_s, widest_s))
        return now.moved(
            float(np.clip(now.mean_s + mean, -0.006, LONGEST_MEAN_S)),
            float(np.clip(now.variance_s2 + variance, 0.0, LONGEST_TAU_S**2)),
            part_s,
        )


def refined(trial: Trial, steps: int) -> Trial:
    """Follow the steps as long as they lead to better fits."""
    for _ in range(steps):
        for scale in (1.0, 1 / 3, 1 / 9):
            response = trial.moved(scale)
            if _same(response, trial.response, trial.slices.stretch.period_s):
                return trial
            tried = Trial(trial.slices, response, trial.tie, trial.gain)
            if tried.cost < trial.cost:
                trial = tried
                break
        else:
            return trial
    return trial


def _same(first: Response, second: Response, period_s: float) -> bool:
    return (
        abs(first.mean_s - second.mean_s) < 5e-5
        and abs(first.variance_s2**0.5 - second.variance_s2**0.5) < 2e-4
        and abs(first.part_s - second.part_s) < 1e-3 * period_s
    )


def whitened(rows: Floats, gain: float) -> Floats:
    """Rows (n, w) without what slow drift explains of them, (n - 1, w)."""
    return np.asarray(Innovations(np.array([gain]), rows.shape[1] - 1).filter(rows)[0])


def score(sums: Floats, rows: int, model: Unknowns, total_j: float) -> Floats:
    """−2 log marginal likelihood of zᵀz (…, n, n) over so many rows, (…)."""
    normal = Normal.of(sums, rows, model)
    return evidence(normal, prior_of(normal, total_j))


def _column_powers(layout: Unknowns, width: int, value: Floats, total_j: float) -> Floats:
    """Power in W of every column, (width,); the mean where none was seen."""
    mean_w = total_j / max(float(layout.time_s.sum()), 1e-12)
    watts = np.full(width, mean_w)
    place = layout.fold[1:].argmax(0)[1:]
    own = layout.owner >= 0
    watts[place[own]] = value[own]
    return watts
