"""Which responses explain the first part of a run.

A grid of delays and lags, of part-time windows and of moving averages is fitted with few slices a
phase; from the best points that lie apart, Gauss–Newton steps go to the nearest optimum of each
model (:class:`~.nuisance.Tie`). A delay of a whole step is an optimum of its own: several may be
kept. What is kept are responses; which of them is right is decided by the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Bools, Floats
from ..regression.blocks import Innovations
from ..regression.columns import Columns
from ..regression.design import Spans, cut
from ..regression.solve import Normal, Unknowns, evidence, fit, prior_of, unknowns
from .nuisance import DERIVATIVES, ODDS, Tie, distance, prior, response_columns
from .response import Kind, Response
from .shown import ShownTime

GAINS = (0.0, 0.12, 0.25, 0.45)  # of the innovations filter
USUAL = Response.of(0.0, 0.008)
LONGEST_TAU_S, LONGEST_MEAN_S = 0.09, 0.16
REACH_S = 0.2 + 16 * 0.07  # of the grid's slowest response, before an update

_TAUS_S = (0.0, 0.004, 0.008, 0.014, 0.022, 0.034, 0.05, 0.07)
_DELAYS_S = (-0.004, 0.062)
_DELAY_STEP_S = (0.002, 0.004)
_DELAYS_A_CYCLE = 12
_PARTS = (0.5, 0.25, 0.1)
_WINDOWS_S = (0.012, 0.025, 0.05, 0.1)
_FEWEST = 8
_SCAN_GAIN = 0.25
_SCAN_SLICES = 4
_APART_S, _APART_TAU_S = 0.006, 0.03
_BASINS, _WORST_BASIN = 3, 60.0
_PART_TIME_WINS = 12.0  # better by so much in evidence: nothing else is kept
_KEPT_AFTER_SLIM, _KEPT = 25.0, 16.0
_MOST_LANES = 5
_KEPT_GAINS = 2
_STEPS = 6
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


@dataclass(slots=True)
class Likely:
    """What the search is left with: lanes, the likeliest first, and gains likewise."""

    lanes: list[tuple[Response, Tie, Floats]] = field(default_factory=list)  # powers per column, W
    gains: tuple[float, ...] = GAINS


@dataclass(frozen=True, slots=True)
class _Slices:
    """The stretch cut into slices of some columns."""

    shown: ShownTime
    unknowns: Unknowns
    stretch: Stretch

    @classmethod
    def of(cls, stretch: Stretch, columns: Columns) -> _Slices:
        shown = ShownTime(cut(stretch.spans, columns), columns.width, stretch.period_s)
        elapsed = np.diff(shown.elapsed(stretch.ends_s), axis=0)[stretch.usable].sum(0)
        return cls(shown, unknowns(columns, elapsed), stretch)

    def rows(self, response: Response) -> Floats:
        return self.shown.rows(self.stretch.ends_s, response)[self.stretch.usable]

    @property
    def joules(self) -> Floats:
        return self.stretch.joules[self.stretch.usable]


def search(stretch: Stretch) -> Iterator[Likely | None]:
    """Search in pieces: None while there is more to do, then what is likely.

    Each piece takes some 50 ms at most, so that a recorder can do other things in between.
    """
    if np.count_nonzero(stretch.usable) < _FEWEST:
        yield Likely([(USUAL, Tie.FREE, _mean_powers(stretch))], GAINS[1:3])
        return
    slim = _Slices.of(stretch, _slim(stretch.columns))
    points: list[tuple[float, Response]] = []
    for tau_s in _TAUS_S:
        points += _scan(slim, [Response.of(d, tau_s) for d in _delays(slim)])
        yield None
    parts: list[tuple[float, Response]] = []
    period_s = stretch.period_s
    for part in _PARTS:
        delays = np.arange(0, period_s * (1 - part) + 0.012, 0.004).tolist()
        for tau_s in (0.0, 0.008):
            parts += _scan(slim, [Response.part_time(part * period_s, d, tau_s) for d in delays])
        yield None
    gain = _best(points)[0] - _best(parts)[0]
    starts: list[tuple[Tie, Response]] = []
    if gain > -_PART_TIME_WINS:
        starts += [(Tie.PART_TIME, p) for p in _basins(parts)]
        starts.append((Tie.PART_SHARP, _best([p for p in parts if p[1].variance_s2 == 0])[1]))
    if gain < _PART_TIME_WINS:
        averages: list[tuple[float, Response]] = []
        for window_s in _WINDOWS_S:
            averages += _scan(slim, [Response.averaging(d, window_s) for d in _delays(slim)])
            yield None
        starts += [(Tie.FREE, p) for p in _basins(points)]
        starts.append((Tie.AVERAGE, _best(averages)[1]))
        starts.append((Tie.IN_TIME, _best([p for p in points if abs(p[1].delay_s) < 0.0045])[1]))
        starts.append((Tie.SHARP, _best([p for p in points if p[1].variance_s2 == 0])[1]))
    trials = []
    for tie, response in starts:
        trials.append(_refined(_Trial(slim, response, tie, _SCAN_GAIN), _STEPS))
        yield None
    full = _Slices.of(stretch, stretch.columns)
    least = min(t.cost for t in trials)
    finer = []
    for trial in trials:
        if trial.cost < least + _KEPT_AFTER_SLIM:
            finer.append(_refined(_Trial(full, trial.response, trial.tie, _SCAN_GAIN), 2))
            yield None
    yield _choose(finer)


def calibrated(stretch: Stretch, response: Response) -> Likely:
    """The lane of a response that is known but for its calibration's errors."""
    if np.count_nonzero(stretch.usable) < _FEWEST:
        return Likely([(response, Tie.KNOWN, _mean_powers(stretch))], GAINS[1:3])
    return _choose([_Trial(_Slices.of(stretch, stretch.columns), response, Tie.KNOWN, _SCAN_GAIN)])


def measured(stretch: Stretch) -> tuple[Response, float, float]:
    """The likeliest response, and the standard errors of its delay and its lag or window, in s."""
    likely = next(found for found in search(stretch) if found is not None)
    response, tie, _ = likely.lanes[0]
    trial = _Trial(_Slices.of(stretch, stretch.columns), response, tie, likely.gains[0])
    mean_ms, variance_ms2 = np.sqrt(np.diag(trial.step_cov))[:2].tolist()
    spread_ms = variance_ms2 / max(2e3 * response.variance_s2**0.5, 4.0)
    if response.kind is Kind.AVERAGE:
        spread_ms *= 12**0.5
    return response, float(np.hypot(mean_ms, spread_ms)) / 1e3, spread_ms / 1e3


def taken_for_granted(stretch: Stretch, response: Response) -> Likely:
    """The lane of a response of which nothing is unknown."""
    return Likely([(response, Tie.EXACT, _mean_powers(stretch))])


def _mean_powers(stretch: Stretch) -> Floats:
    mean_w = float(stretch.joules.sum()) / max(float(np.ptp(stretch.ends_s)), 1e-9)
    return np.full(stretch.columns.width, mean_w)


def _choose(trials: Sequence[_Trial]) -> Likely:
    least = min(t.cost for t in trials)
    kept: list[_Trial] = []
    for trial in sorted(trials, key=lambda t: t.cost + ODDS[t.tie]):
        again = any(
            t.tie is trial.tie
            and abs(t.response.mean_s - trial.response.mean_s) < 5e-4
            and abs(t.response.tau_s - trial.response.tau_s) < 3e-3
            for t in kept
        )
        if trial.cost < least + _KEPT and not again and len(kept) < _MOST_LANES:
            kept.append(trial)
    best = kept[0]
    scores = {
        gain: _Trial(best.slices, best.response, best.tie, gain, derive=False).score
        for gain in GAINS
    }
    gains = tuple(sorted(GAINS, key=scores.__getitem__)[:_KEPT_GAINS])
    return Likely([(t.response, t.tie, t.watts) for t in kept], gains)


def _slim(columns: Columns) -> Columns:
    slim = Columns()
    for code in columns.first:
        slim.add(code, min(_SCAN_SLICES, columns.slices_of[code]))
    return slim


def _delays(slices: _Slices) -> list[float]:
    """Delays that are tried: finer where the cycle of phases is short."""
    spans = slices.stretch.spans
    counts = np.unique(spans.code, return_counts=True)[1]
    cycle_s = float(spans.end_s[-1] - spans.begin_s[0]) / max(int(np.median(counts)), 1)
    step_s = float(np.clip(cycle_s / _DELAYS_A_CYCLE, *_DELAY_STEP_S))
    return [float(d) for d in np.arange(*_DELAYS_S, step_s)]


class _Trial:
    """One response fitted to the stretch, and the step that its derivatives propose."""

    def __init__(
        self, slices: _Slices, response: Response, tie: Tie, gain: float, *, derive: bool = True
    ):
        self.slices, self.response, self.tie, self.gain = slices, response, tie, gain
        stretch = slices.stretch
        table = np.concatenate([slices.joules[:, None], slices.rows(response)], axis=1)
        white = _whitened(table, gain)
        total = float(slices.joules.sum())
        normal = Normal.of(white.T @ white, len(white), slices.unknowns)
        belief = prior_of(normal, total)
        self.score = float(evidence(normal, belief))
        self.cost = self.score + distance(response, tie)
        fitted = fit(normal, belief)
        self.watts = _column_powers(slices, fitted.value, total)
        self.step: Floats = np.zeros(DERIVATIVES)
        self.step_cov: Floats = np.zeros((DERIVATIVES, DERIVATIVES))
        if not derive:
            return
        per_slice = self.watts[slices.shown.slices.column]
        extra = response_columns(slices.shown, per_slice, stretch.ends_s, response)
        extra = extra[stretch.usable, :DERIVATIVES]
        white = np.concatenate([white[:, :1], _whitened(extra, gain), white[:, 1:]], axis=1)
        fold = np.zeros((white.shape[1], slices.unknowns.fold.shape[1] + DERIVATIVES))
        size = slices.unknowns.fold.shape[1]
        fold[0, :size] = slices.unknowns.fold[0]
        fold[1 + DERIVATIVES :, :size] = slices.unknowns.fold[1:]
        fold[1 + np.arange(DERIVATIVES), size + np.arange(DERIVATIVES)] = 1.0
        more = np.zeros(DERIVATIVES)
        some = Unknowns(
            fold,
            np.append(slices.unknowns.time_s, more),
            np.append(slices.unknowns.owner, np.full(DERIVATIVES, -3)),
            np.append(slices.unknowns.border, np.full(DERIVATIVES, -1)),
            np.append(slices.unknowns.total, more),
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
            part_s = float(np.clip(part_s + wider_s, 0.03 * period_s, 0.97 * period_s))
        return now.moved(
            float(np.clip(now.mean_s + mean, -0.006, LONGEST_MEAN_S)),
            float(np.clip(now.variance_s2 + variance, 0.0, LONGEST_TAU_S**2)),
            part_s,
        )


def _refined(trial: _Trial, steps: int) -> _Trial:
    """Follow the steps as long as they lead to better fits."""
    for _ in range(steps):
        for scale in (1.0, 1 / 3, 1 / 9):
            response = trial.moved(scale)
            if _same(response, trial.response, trial.slices.stretch.period_s):
                return trial
            tried = _Trial(trial.slices, response, trial.tie, trial.gain)
            if tried.cost < trial.cost:
                trial = tried
                break
        else:
            return trial
    return trial


def _same(one: Response, other: Response, period_s: float) -> bool:
    return (
        abs(one.mean_s - other.mean_s) < 5e-5
        and abs(one.variance_s2**0.5 - other.variance_s2**0.5) < 2e-4
        and abs(one.part_s - other.part_s) < 1e-3 * period_s
    )


def _scan(slices: _Slices, responses: Sequence[Response]) -> list[tuple[float, Response]]:
    """(evidence, response) of each."""
    joules = slices.joules[:, None]
    tables = [np.concatenate([joules, slices.rows(r)], axis=1) for r in responses]
    # All side by side: the filter costs about the same for a wide row as for a narrow one.
    white = _whitened(np.concatenate(tables, axis=1), _SCAN_GAIN)
    white = white.reshape(len(white), len(responses), -1).transpose(1, 0, 2)
    normal = Normal.of(white.swapaxes(-1, -2) @ white, white.shape[1], slices.unknowns)
    scores = evidence(normal, prior_of(normal, float(joules.sum())))
    return list(zip(scores.tolist(), responses, strict=True))


def _best(points: Sequence[tuple[float, Response]]) -> tuple[float, Response]:
    return min(points, key=lambda p: p[0])


def _basins(points: Sequence[tuple[float, Response]]) -> list[Response]:
    """The best points that are apart from each other in mean delay or lag."""
    chosen: list[Response] = []
    ordered = sorted(points, key=lambda p: p[0])
    for score, response in ordered:
        if score > ordered[0][0] + _WORST_BASIN or len(chosen) == _BASINS:
            break
        if all(
            abs(response.mean_s - c.mean_s) > _APART_S
            or abs(response.tau_s - c.tau_s) > _APART_TAU_S
            for c in chosen
        ):
            chosen.append(response)
    return chosen


def _whitened(rows: Floats, gain: float) -> Floats:
    return np.asarray(Innovations(np.array([gain]), rows.shape[1] - 1).filter(rows)[0])


def _column_powers(slices: _Slices, value: Floats, total_j: float) -> Floats:
    """Power in W of every column, (width,); the mean where none was seen."""
    known = slices.unknowns
    mean_w = total_j / max(float(known.time_s.sum()), 1e-12)
    watts = np.full(slices.shown.width, mean_w)
    place = known.fold[1:].argmax(0)[1:]
    own = known.owner >= 0
    watts[place[own]] = value[own]
    return watts
