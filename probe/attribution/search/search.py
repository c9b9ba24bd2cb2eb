"""Which responses explain the first part of a run.

A grid of delays and lags, of part-time windows and of moving averages is fitted with few slices a
phase; from the best points that lie apart, Gauss–Newton steps go to the nearest optimum of each
model (:class:`~.nuisance.Tie`). A delay of a whole step is an optimum of its own: several may be
kept. What is kept are responses; which of them is right is decided by the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..arrays import Bools, Floats
from ..columns import Columns
from ..meter.misdated import MisdatedUpdates
from ..regression.lanes import GAINS, LikelyLanes
from ..response.nuisance import ODDS, Tie
from ..response.response import Kind, Response
from .scan import SCAN_GAIN, Points, basins, best, scan, wins_in_both_halves
from .trial import Slices, Stretch, Trial, refined

USUAL = Response.of(0.0, 0.008)

# Seen before responses are chosen, at most; updates inside long visits show nothing of them.
BLIND_S = 45.0
_UPDATES_OF_UNCALIBRATED = 900
MOST_UPDATES = 3000  # those inside long visits included: a first step that compiles
_UPDATES_OF_CALIBRATED = 50  # a calibrated response: they only have to show the powers
_UPDATES_OF_EXACT = 32  # an exact response: nothing has to be shown

_TAUS_S = (0.0, 0.004, 0.008, 0.014, 0.022, 0.034, 0.05, 0.07)
_DELAYS_S = (-0.004, 0.062)
_DELAY_STEP_S = (0.002, 0.004)
_DELAYS_A_CYCLE, _MOST_DELAYS = 12, 50
_FEW_DELAYS = 4  # one in so many, to find updates that are dated wrongly
_PARTS = (0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1)
_PART_GRID = ((0.0, 0.002), (0.008, 0.006))  # lag, step of the delay
# Windows of power readings: shares of the period, and the mean of a second.
_POLLED_PARTS = (1.3, 1.1, 1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1)
_LONGER_S, _LONGER_STEP_S = 0.99, 0.012  # nothing known has a window between: no lag, few delays
_AT_ONCE = 30
_LONGER_DELAYS_S = (0.0, 0.01, 0.02, 0.035)
_POLLED_SECOND_S = 1.0
_POLLED_GRID = ((0.0, 0.003), (0.008, 0.006), (0.03, 0.008), (0.06, 0.008))
_POLLED_DELAY_S = 0.045
_WINDOWS_S = (0.012, 0.025, 0.05, 0.1)
_FEWEST = 8
_SCAN_SLICES = 4
_FAST_S = 0.03
_AS_LIKELY, _FAR_S = 5.0, 0.012  # 1.25 tempered
_CLEARLY_WHOLE = 50.0  # worse by so much with few slices: part-time is left out
_PART_TIME_WINS = 150.0  # better by so much with all slices: nothing else is kept
_KEPT_AFTER_SLIM, _KEPT = 25.0, 16.0
_MOST_LANES = 5
_KEPT_GAINS = 2
_STEPS = 6


def search(stretch: Stretch) -> Iterator[LikelyLanes | None]:
    """Search in pieces: None while there is more to do, then what is likely.

    Each piece takes some 50 ms at most, so that a recorder can do other things in between.
    """
    if np.count_nonzero(stretch.usable) < _FEWEST:
        yield LikelyLanes([(USUAL, Tie.FREE, _mean_powers(stretch))], GAINS[1:3])
        return
    slim_columns = _slim(stretch)
    slim = Slices.of(stretch, slim_columns)
    if stretch.polled:
        yield from _search_windows(stretch, slim)
        return
    delays = _delays(slim)[::_FEW_DELAYS]
    coarse = scan(slim, [Response.of(d, tau_s) for tau_s in _TAUS_S[::2] for d in delays])
    yield None
    left_out = _misdated(slim, best(coarse)[1])
    if left_out.any():
        stretch = stretch.without(left_out)
        slim = Slices.of(stretch, slim_columns)
    yield None
    points: list[tuple[float, Response]] = []
    for tau_s in _TAUS_S:
        points += scan(slim, [Response.of(d, tau_s) for d in _delays(slim)])
        yield None
    parts: list[tuple[float, Response]] = []
    period_s = stretch.period_s
    for part in _PARTS:
        last_s = period_s * (1 - part) + 0.012
        for tau_s, step_s in _PART_GRID:
            delays = np.arange(0, last_s, max(step_s, last_s / _MOST_DELAYS)).tolist()
            parts += scan(slim, [Response.part_time(part * period_s, d, tau_s) for d in delays])
        yield None
    gain = best(points)[0] - best(parts)[0]
    starts: list[tuple[Tie, Response]] = []
    if gain > -_CLEARLY_WHOLE:
        starts += [(Tie.PART_TIME, p) for p in basins(parts)]
        sharp = [p for p in parts if p[1].variance_s2 == 0]
        in_time = [p for p in sharp if p[1].delay_s < 0.0025]
        starts += [(Tie.PART_SHARP, best(some)[1]) for some in (sharp, in_time)]
    averages: list[tuple[float, Response]] = []
    for window_s in _WINDOWS_S:
        averages += scan(slim, [Response.averaging(d, window_s) for d in _delays(slim)])
        yield None
    starts += [(Tie.FREE, p) for p in basins(points)]
    starts.append((Tie.AVERAGE, best(averages)[1]))
    starts.append((Tie.IN_TIME, best([p for p in points if abs(p[1].delay_s) < 0.0045])[1]))
    starts.append((Tie.SHARP, best([p for p in points if p[1].variance_s2 == 0])[1]))
    if stretch.hint is not None:
        starts.append((Tie.FREE, stretch.hint))
    yield from _refine(stretch, slim, starts, {False: points, True: parts})


def _misdated(slim: Slices, response: Response) -> Bools:
    """Which of the stretch's n + 1 updates a fit of this response contradicts, (n + 1,)."""
    trial = Trial(slim, response, Tie.FREE, SCAN_GAIN, derive=False)
    return MisdatedUpdates().find(trial.residual_j, slim.stretch.usable)


def _search_windows(stretch: Stretch, slim: Slices) -> Iterator[LikelyLanes | None]:
    """The same of power readings: each a mean over a window, at a delay, perhaps after a lag."""
    period_s = stretch.period_s
    windows = [part * period_s for part in _POLLED_PARTS]
    if period_s < _POLLED_SECOND_S / 1.5:
        windows.append(_POLLED_SECOND_S)
    points: list[tuple[float, Response]] = []
    for tau_s, step_s in _POLLED_GRID:
        for window_s in windows:
            last_s = max(period_s - window_s + 0.012, _POLLED_DELAY_S)
            delays = np.arange(0, last_s, max(step_s, last_s / _MOST_DELAYS)).tolist()
            points += scan(slim, [Response.part_time(window_s, d, tau_s) for d in delays])
            yield None
    for delay_s in _LONGER_DELAYS_S:
        longer = np.arange(_POLLED_PARTS[0] * period_s, _LONGER_S, _LONGER_STEP_S).tolist()
        for first in range(0, len(longer), _AT_ONCE):
            some = longer[first : first + _AT_ONCE]
            points += scan(slim, [Response.part_time(w, delay_s) for w in some])
            yield None
    starts = [(Tie.PART_TIME, p) for p in basins(points)]
    sharp = [p for p in points if p[1].variance_s2 == 0]
    in_time = [p for p in sharp if p[1].delay_s < 0.0035]
    starts += [(Tie.PART_SHARP, best(some)[1]) for some in (sharp, in_time)]
    if stretch.hint is not None:
        starts.append((Tie.PART_SHARP, stretch.hint))
    yield from _refine(stretch, slim, starts)


def _refine(
    stretch: Stretch,
    slim: Slices,
    starts: Sequence[tuple[Tie, Response]],
    scanned: Mapping[bool, Points] | None = None,
) -> Iterator[LikelyLanes | None]:
    """Go from starts to the optima, with few slices and then with all.

    Args:
        scanned: all responses of the grid, by whether they are part-time.
    """
    trials = []
    for tie, response in starts:
        trials.append(refined(Trial(slim, response, tie, SCAN_GAIN), _STEPS))
        yield None
    full = Slices.of(stretch, stretch.columns)
    finer = []
    for family in (True, False):
        some = [t for t in trials if _is_part_time(t) is family]
        least = min((t.cost for t in some), default=0.0)
        for trial in some:
            if trial.cost < least + _KEPT_AFTER_SLIM:
                finer.append(refined(Trial(full, trial.response, trial.tie, SCAN_GAIN), 2))
                yield None
    kept = _of_one_family(finer)
    likely = _choose(kept)
    points = (scanned or {}).get(_is_part_time(kept[0]), [])
    yield replace(likely, ambiguous=far_from_all(points, likely))


def far_from_all(points: Points, likely: LikelyLanes) -> bool:
    """True if one of these responses is about as likely as the best, and far from all lanes.

    Where all steps take the same time, a delay only turns the step's profile. Of what stands
    there, powers that differ less are likelier, and that is no knowledge of the meter.
    """
    least = min((cost for cost, _ in points), default=0.0)
    lanes_s = np.array([response.mean_s for response, _, _ in likely.lanes])
    return any(
        cost < least + _AS_LIKELY and np.abs(lanes_s - response.mean_s).min() > _FAR_S
        for cost, response in points
    )


def _is_part_time(trial: Trial) -> bool:
    return trial.response.kind is Kind.PART_TIME


def _of_one_family(trials: list[Trial]) -> list[Trial]:
    """Only part-time responses where they win clearly, in both halves of the stretch."""
    some = {family: [t for t in trials if _is_part_time(t) is family] for family in (True, False)}
    if not some[True] or not some[False]:
        return trials
    part, whole = (min(some[family], key=lambda t: t.cost) for family in (True, False))
    wins = part.cost < whole.cost - _PART_TIME_WINS and wins_in_both_halves(
        part.slices, part.response, whole.response
    )
    return some[True] if wins else some[False]


def updates_wanted(response: Response | None, *, exact: bool) -> int:
    """How many updates :func:`likely` wants; ``exact``: nothing of the response is unknown."""
    if response is None:
        return _UPDATES_OF_UNCALIBRATED
    return _UPDATES_OF_EXACT if exact else _UPDATES_OF_CALIBRATED


def likely(
    stretch: Stretch, response: Response | None, *, exact: bool
) -> Iterator[LikelyLanes | None]:
    """The lanes of a run, searched for where no response is known; None between pieces."""
    if response is None:
        return search(stretch)
    return iter([taken_for_granted(stretch, response) if exact else calibrated(stretch, response)])


def calibrated(stretch: Stretch, response: Response) -> LikelyLanes:
    """The lane of a response that is known but for its calibration's errors."""
    if np.count_nonzero(stretch.usable) < _FEWEST:
        return LikelyLanes([(response, Tie.KNOWN, _mean_powers(stretch))], GAINS[1:3])
    return _choose([Trial(Slices.of(stretch, stretch.columns), response, Tie.KNOWN, SCAN_GAIN)])


def measured(stretch: Stretch) -> tuple[Response, float, float]:
    """The likeliest response, and the standard errors of its delay and its lag or window, in s."""
    likely = next(lanes for lanes in search(stretch) if lanes is not None)
    response, tie, _ = likely.lanes[0]
    trial = Trial(Slices.of(stretch, stretch.columns), response, tie, likely.gains[0])
    mean_ms, variance_ms2 = np.sqrt(np.diag(trial.step_cov))[:2].tolist()
    spread_ms = variance_ms2 / max(2e3 * response.variance_s2**0.5, 4.0)
    if response.kind is Kind.AVERAGE:
        spread_ms *= 12**0.5
    return response, float(np.hypot(mean_ms, spread_ms)) / 1e3, spread_ms / 1e3


def taken_for_granted(stretch: Stretch, response: Response) -> LikelyLanes:
    """The lane of a response of which nothing is unknown."""
    return LikelyLanes([(response, Tie.EXACT, _mean_powers(stretch))])


def _mean_powers(stretch: Stretch) -> Floats:
    mean_w = float(stretch.joules.sum()) / max(float(np.ptp(stretch.ends_s)), 1e-9)
    return np.full(stretch.columns.width, mean_w)


def _choose(trials: Sequence[Trial]) -> LikelyLanes:
    least = min(t.cost for t in trials)
    kept: list[Trial] = []
    for trial in sorted(trials, key=lambda t: t.cost + ODDS[t.tie]):
        again = any(
            t.tie is trial.tie
            and abs(t.response.mean_s - trial.response.mean_s) < 5e-4
            and abs(t.response.tau_s - trial.response.tau_s) < 3e-3
            for t in kept
        )
        if trial.cost < least + _KEPT and not again and len(kept) < _MOST_LANES:
            kept.append(trial)
    likeliest = kept[0]
    scores = {
        gain: Trial(likeliest.slices, likeliest.response, likeliest.tie, gain, derive=False).score
        for gain in GAINS
    }
    gains = tuple(sorted(GAINS, key=scores.__getitem__)[:_KEPT_GAINS])
    return LikelyLanes([(t.response, t.tie, t.watts) for t in kept], gains)


def _slim(stretch: Stretch) -> Columns:
    """Columns with few slices a phase; a fast meter's rows are shorter than long slices."""
    columns, slim = stretch.columns, Columns()
    most = _SCAN_SLICES if stretch.period_s > _FAST_S else 2 * _SCAN_SLICES
    for code in columns.first:
        slim.add(code, min(most, columns.slices_of[code]))
    return slim


def _delays(slices: Slices) -> list[float]:
    """Delays that are tried: finer where the cycle of phases is short."""
    spans = slices.stretch.spans
    counts = np.unique(spans.code, return_counts=True)[1]
    cycle_s = float(spans.end_s[-1] - spans.begin_s[0]) / max(int(np.median(counts)), 1)
    step_s = float(np.clip(cycle_s / _DELAYS_A_CYCLE, *_DELAY_STEP_S))
    return [float(d) for d in np.arange(*_DELAYS_S, step_s)]
