"""What is not known of a response, as columns of the same solve.

If slices draw the powers p̂, a sensor whose mean delay is m + a shows y + a ∂y/∂m: to first order
an error of the response is one more column with one more unknown, and the joules' interval is as
wide as it makes it. Beside the mean delay and the variance of the kernel there is a third column:
for a lag another shape of the same mean and variance (two lags), for a moving average a lag in
its place, for a part-time sensor the width of its window.

Further columns are responses far from this one: the residual is tested against them
(:mod:`lack_of_fit`), and a model that is free to follow them stands beside the others. The last
ones are parts of the signal that come some tenths of a second late, which no response of the
family has: the residual is tested against them by themselves.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from ..arrays import Floats
from ..regression.iir_filter import fading
from .response import Kind, Response
from .shown import ShownTime
from .slice_signals import Levels

DERIVATIVES = 3  # mean delay (per ms), variance (per ms²), shape or window
LAGS_S = (-0.020, -0.012, -0.006, 0.006, 0.012, 0.020, 0.045)  # added to the mean delay
# The same of a part-time meter, in periods: its window may be one of several.
PART_TIME_LAGS = (-1 / 2, -1 / 3, -1 / 5, 1 / 10, 1 / 5, 1 / 3, 1 / 2)
PARTS = (0.5, 0.25, 0.1)  # of the period, integrated
WINDOWS = (1.0, 2.0, 4.0)  # periods: of a window, others that it might be; as many as PARTS
SLOW_S = (0.3, 1.0)  # lags of a part of the signal that comes far later than the rest
_KERNELS = DERIVATIVES + len(LAGS_S) + len(PARTS)
EXTRAS = _KERNELS + len(SLOW_S)
ALTERNATIVES = tuple(range(DERIVATIVES, _KERNELS))
SLOW_PLACES = tuple(range(_KERNELS, EXTRAS))
LAG_PLACES = tuple(range(DERIVATIVES, DERIVATIVES + len(LAGS_S)))
HALVES, THIRDS = LAG_PLACES[::6], LAG_PLACES[1::4]  # of the period, of a part-time meter

_SHORTEST_S = 1e-9
_PART, _SEVERAL_WINDOWS_S = 0.9, 0.03
_STEP_S, _LEAST_SPREAD_S = 0.0005, 0.003  # of the derivatives' finite differences
_LONGEST_STEP_S = 0.006  # of a window's
_MEAN_MS = 4.0  # how far the mean delay may be from where it was found
_TAU_MS = 10.0
_LEAST_VARIANCE_MS2 = 25.0
_SHAPE = 0.5
_WINDOW_SHARE = 0.05  # of the period
_SHARP_MS2 = 9.0
_IN_TIME_MS = 1.0  # clocks of a counter that is in time
_KNOWN_MS = (0.2, 0.3)  # delay and lag after a calibration
_FREE_SPREAD = 0.1  # of a freer kernel's coefficients
_TWO_LAGS = ((0.7, 0.45), (0.3, 2.28))  # weight, share of τ: same mean and almost the variance


class Tie(StrEnum):
    """What a lane takes for granted of its response. Each is a model of its own."""

    FREE = "free"
    IN_TIME = "in time"  # no delay but for the clocks' error
    SHARP = "sharp"  # no lag
    AVERAGE = "average"
    PART_TIME = "part-time"
    PART_SHARP = "part-time, no lag"
    KNOWN = "known"  # calibrated, or from the database
    EXACT = "exact"  # nothing about it is unknown: our own windows, RAPL


# 2 ln(width of the slab over the width of the prior): else the freest model always wins.
ODDS = {
    Tie.FREE: 5.0,
    Tie.AVERAGE: 7.0,
    Tie.IN_TIME: 1.8,
    Tie.SHARP: 3.2,
    Tie.PART_TIME: 5.0,
    Tie.PART_SHARP: 3.2,
    Tie.KNOWN: 0.0,
    Tie.EXACT: 0.0,
}


def response_columns(
    shown: ShownTime,
    watts: Floats,
    ends_s: Floats,
    response: Response,
    *,
    derivatives_only: bool = False,
) -> tuple[Floats, Floats]:
    """Columns of the response's own parameters and of responses far from it.

    Returns:
        ((n, EXTRAS), zero where the response has no such parameter and at SLOW_PLACES; the energy
        in J that the sensor shows in each interval, (n,)).

    Args:
        derivatives_only: leave the responses far from it zero.
        watts: what each slice draws, (slices,).
        ends_s: ends of the n intervals, the first one's begin before them, (n + 1,).
    """
    out = np.zeros((len(ends_s) - 1, EXTRAS))
    far = np.array(LAGS_S)
    if may_have_several_windows(response, shown.period_s):
        far = shown.period_s * np.array(PART_TIME_LAGS)
    powers = shown.powers(watts)
    later = np.array([0.0, _STEP_S, -_STEP_S, *(() if derivatives_only else far)])
    same = _delayed(shown, powers, ends_s, response, later)
    base = same[0]
    out[:, 0] = (same[1] - same[2]) / (2e3 * _STEP_S)
    if not derivatives_only:
        out[:, DERIVATIVES : DERIVATIVES + len(LAGS_S)] = (same[3:] - base).T
        parts = _windows if response.kind is Kind.PART_TIME else _part_time
        out[:, DERIVATIVES + len(LAGS_S) : _KERNELS] = (
            parts(shown, powers, ends_s, response) - base
        ).T

    def energies(other: Response) -> Floats:
        return shown.energies(powers, ends_s, other)

    mean, variance = response.mean_s, response.variance_s2
    wide = max(_LEAST_SPREAD_S**2, 0.2 * variance)
    narrow = max(variance - wide, 0.0)
    wider, narrower = response.moved(mean, variance + wide), response.moved(mean, narrow)
    out[:, 1] = (energies(wider) - energies(narrower)) / (1e6 * (variance + wide - narrow))
    if response.kind is Kind.PART_TIME:
        step_s = min(0.06 * response.part_s, _LONGEST_STEP_S)
        more, less = (response.part_s + sign * step_s for sign in (1, -1))
        # The window's end stays where it is.
        out[:, 2] = (
            energies(response.moved(mean, variance, more))
            - energies(response.moved(mean, variance, less))
        ) / (2e3 * step_s)
    elif response.kind is Kind.AVERAGE:
        out[:, 2] = energies(Response(mean, variance)) - base
    elif response.tau_s > 0.002:
        out[:, 2] = -base
        for weight, share in _TWO_LAGS:
            tau_s = share * response.tau_s
            out[:, 2] += weight * energies(Response.of(response.delay_s, tau_s))
    return out, base


def may_have_several_windows(response: Response, period_s: float) -> bool:
    """True if the columns at LAG_PLACES are further windows of the period.

    Of a short period errors of the dates look like these.
    """
    part = response.kind is Kind.PART_TIME and response.part_s < _PART * period_s
    return part and period_s > _SEVERAL_WINDOWS_S


def slow_columns(shown_j: Floats, time_s: Floats, late_w: Floats | None) -> tuple[Floats, Floats]:
    """Columns of a part of the signal that comes later by a further lag.

    Args:
        shown_j: energy that the sensor shows in each interval, (n,).
        time_s: lengths of the intervals, (n,).
        late_w: what was returned for the intervals before; None: these are the first.

    Returns:
        ((n, SLOW_S), power in W that each lag shows at the end, (SLOW_S,)).
    """
    power = shown_j / np.maximum(time_s, _SHORTEST_S)
    before = np.full(len(SLOW_S), power.mean()) if late_w is None else late_w
    columns, after = [], []
    for lag_s, last_w in zip(SLOW_S, before.tolist(), strict=True):
        log_decay = -time_s / lag_s
        added = -np.expm1(log_decay) * power
        late = fading(log_decay, added[:, None], np.array([last_w]))[:, 0]
        columns.append((late - power) * time_s)
        after.append(late[-1])
    return np.stack(columns, axis=1), np.array(after)


def _delayed(
    shown: ShownTime, powers: Levels, ends_s: Floats, response: Response, later_s: Floats
) -> Floats:
    """What the same kernel shows with more delays (d,); (d, n)."""
    if response.kind is not Kind.PART_TIME:
        at_s = ends_s - response.delay_s - later_s[:, None]
        return np.diff(powers.shown(at_s, response)[0])
    windows = shown.windows(ends_s, response.part_s)
    at_s = windows.ends_s - response.delay_s - later_s[:, None]
    gap = powers.shown(at_s, response) - powers.shown(at_s - response.part_s, response)
    return windows.summed(gap[0])


def _part_time(shown: ShownTime, powers: Levels, ends_s: Floats, response: Response) -> Floats:
    """What part-time sensors with the same kernel show, (PARTS, n)."""
    windows = shown.windows(ends_s, 1.0)
    lengths_s = shown.period_s * np.array(PARTS)[:, None]
    ends = windows.ends_s - response.delay_s
    until = powers.shown(np.concatenate([ends[None], ends - lengths_s]), response)[0]
    return windows.summed((until[0] - until[1:]) / lengths_s)


def _windows(shown: ShownTime, powers: Levels, ends_s: Floats, response: Response) -> Floats:
    """What other windows show, at the same delay and after the same lag, (WINDOWS, n)."""
    mean, variance = response.mean_s, response.variance_s2
    others = [response.moved(mean, variance, share * shown.period_s) for share in WINDOWS]
    return np.stack([shown.energies(powers, ends_s, other) for other in others])


def prior(response: Response, tie: Tie, period_s: float) -> tuple[Floats, Floats]:
    """Mean (DERIVATIVES,) and covariance of the derivatives' coefficients, in ms and ms²."""
    tau_ms = 1e3 * response.tau_s
    mean = np.zeros(DERIVATIVES)
    cov = np.diag(
        [
            _MEAN_MS**2,
            max(2 * tau_ms * _TAU_MS, _LEAST_VARIANCE_MS2) ** 2,
            (1e3 * _WINDOW_SHARE * period_s if response.kind is Kind.PART_TIME else _SHAPE) ** 2,
        ]
    )
    if tie in (Tie.SHARP, Tie.PART_SHARP):
        cov[1, 1] = _SHARP_MS2**2
        mean[1] = -1e6 * response.variance_s2
    elif tie in (Tie.IN_TIME, Tie.KNOWN):
        delay_ms, lag_ms = _KNOWN_MS if tie is Tie.KNOWN else (_IN_TIME_MS, _TAU_MS)
        slope = 2 * max(tau_ms, 2.0)  # of the variance along the lag
        cov[:2, :2] = [
            [delay_ms**2 + lag_ms**2, slope * lag_ms**2],
            [slope * lag_ms**2, (slope * lag_ms) ** 2 + 1.0],
        ]
        if tie is Tie.IN_TIME:
            mean[0] = -1e3 * response.delay_s
        else:
            cov[2, 2] = 0.2**2
    return mean, cov


def distance(response: Response, tie: Tie) -> float:
    """How far a response is from what the tie takes for granted, as −2 ln of the prior."""
    if tie is Tie.IN_TIME:
        return (1e3 * response.delay_s / _IN_TIME_MS) ** 2
    if tie in (Tie.SHARP, Tie.PART_SHARP):
        return (1e6 * response.variance_s2 / _SHARP_MS2) ** 2
    return 0.0


def free_spread() -> Floats:
    """Standard deviations of the coefficients of a freer kernel's lags, (len(LAGS_S),)."""
    return np.full(len(LAGS_S), _FREE_SPREAD)
