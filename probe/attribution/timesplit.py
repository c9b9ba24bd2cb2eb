"""Phase energy by time split: what can be said before the estimator speaks.

Between two updates of the meter only the sum is known, so each phase gets its share
by time. That is right only if power were constant, hence ``estimated`` and ``weak``,
with hard bounds as the interval: no phase draws less than nothing or more than the
device can. For update interval k of length T_k and energy E_k, in which phase j ran
t_jk, with P the highest power the device can draw::

    max(0, E_k − P (T_k − t_jk))  ≤  E_jk  ≤  min(E_k, P t_jk)

t_jk is widened by the slack of the update instants. Phases that fill whole update
intervals (an evaluation of seconds) therefore get tight intervals, phases of
milliseconds honest wide ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .curve import EnergyCurve, Floats, Times


@dataclass(frozen=True, slots=True)
class PhaseEnergy:
    """Energy of one phase code; ``low_j``/``high_j`` bound it."""

    code: int
    time_ns: int
    energy_j: float
    low_j: float
    high_j: float


def split(
    curve: EnergyCurve, begin_ns: Times, end_ns: Times, code: Times,
    run: tuple[int, int], highest_w: float,
) -> tuple[dict[int, PhaseEnergy], PhaseEnergy]:
    """(energy by phase code, energy of the rest of the run).

    Spans must not overlap. Σ of all energies equals the curve's energy over ``run``.

    Args:
        begin_ns, end_ns, code: the spans.
        run: (begin, end) of the run in ns.
        highest_w: the power in W that the device cannot exceed.
    """
    knots = _knots(curve, run)
    energy = np.diff(curve.at(knots))
    length = np.diff(knots) / 1e9
    # Outside the measured part only power's range bounds anything.
    known = (knots[:-1] >= curve.time_ns[0]) & (knots[1:] <= curve.time_ns[-1])
    slack = curve.slack_ns / 1e9
    found: dict[int, PhaseEnergy] = {}
    covered = np.zeros(len(length))
    spent = 0.0
    for value in np.unique(code):
        mine = code == value
        seconds = np.diff(_elapsed(begin_ns[mine], end_ns[mine], knots)) / 1e9
        joules = float(np.sum(curve.at(end_ns[mine]) - curve.at(begin_ns[mine])))
        low, high = _bounds(energy, length, seconds, slack, known, highest_w)
        time_ns = int(np.sum(end_ns[mine] - begin_ns[mine]))
        found[int(value)] = PhaseEnergy(int(value), time_ns, joules, min(low, joules),
                                        max(high, joules))
        covered += seconds
        spent += joules
    total = float(curve.at(np.array(run))[1] - curve.at(np.array(run))[0])
    rest = total - spent
    low, high = _bounds(energy, length, np.maximum(0, length - covered), slack, known, highest_w)
    rest_ns = run[1] - run[0] - sum(p.time_ns for p in found.values())
    return found, PhaseEnergy(-1, max(0, rest_ns), rest, min(low, rest), max(high, rest))


def _knots(curve: EnergyCurve, run: tuple[int, int]) -> Times:
    inside = curve.time_ns[(curve.time_ns > run[0]) & (curve.time_ns < run[1])]
    return np.concatenate([[run[0]], inside, [run[1]]]).astype(np.int64)


def _elapsed(begin_ns: Times, end_ns: Times, at: Times) -> Floats:
    """Time in ns spent in the given spans up to each instant."""
    corners = np.stack([begin_ns, end_ns], axis=1).ravel()
    spent = np.repeat(np.cumsum(end_ns - begin_ns), 2)
    spent[::2] -= end_ns - begin_ns
    return np.asarray(np.interp(at, corners, spent), dtype=np.float64)


def _bounds(
    energy: Floats, length: Floats, seconds: Floats, slack: float,
    known: np.ndarray[tuple[int], np.dtype[np.bool_]], highest_w: float,
) -> tuple[float, float]:
    touched = seconds > 0
    more = np.where(touched, np.minimum(length, seconds + slack), 0.0)
    less = np.where(seconds >= length * (1 - 1e-9), length, np.maximum(0, seconds - slack))
    low = np.where(known, np.maximum(0, energy - highest_w * (length - less)), 0.0)
    high = np.where(known, np.minimum(energy, highest_w * more), highest_w * more)
    return float(low.sum()), float(high[touched].sum())
