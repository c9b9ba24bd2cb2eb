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

The bounds are sums over intervals, so a long run's come together piece by piece
(:class:`TimeShares` add up). P is known for sure only at the end; the sums are therefore kept for
several P.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arrays import Bools, Floats, Times
from .columns import UNATTRIBUTED
from .meter.energy_curve import EnergyCurve


@dataclass(frozen=True, slots=True)
class PhaseEnergy:
    """Energy of one phase code; ``low_j``/``high_j`` bound it."""

    code: int
    time_ns: int
    energy_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True, slots=True)
class TimeShare:
    """Time and energy of one phase; its bounds for each of k powers have shape (k,), in J."""

    time_ns: int
    energy_j: float
    low_j: Floats
    high_j: Floats

    def __add__(self, other: TimeShare) -> TimeShare:
        return TimeShare(
            self.time_ns + other.time_ns,
            self.energy_j + other.energy_j,
            self.low_j + other.low_j,
            self.high_j + other.high_j,
        )


@dataclass(frozen=True, slots=True)
class TimeShares:
    """The phases of one device by code, the rest of the run as UNATTRIBUTED.

    ``powers_w`` (k,), increasing: the powers P for which bounds are known.
    """

    powers_w: Floats
    of: Mapping[int, TimeShare]

    def __add__(self, later: TimeShares) -> TimeShares:
        """Of two pieces of a run with the same powers."""
        codes = [*self.of, *(code for code in later.of if code not in self.of)]
        none = TimeShare(0, 0.0, np.zeros(len(self.powers_w)), np.zeros(len(self.powers_w)))
        return TimeShares(
            self.powers_w,
            {code: self.of.get(code, none) + later.of.get(code, none) for code in codes},
        )

    def bounded(self, highest_w: float) -> dict[int, PhaseEnergy]:
        """The phases, bounded for a device that cannot exceed ``highest_w``; UNATTRIBUTED last.

        The next higher of the powers is taken: wider bounds, never false ones.
        """
        place = min(
            int(np.searchsorted(self.powers_w, highest_w * (1 - 1e-12))), len(self.powers_w) - 1
        )
        ordered = sorted(self.of.items(), key=lambda item: (item[0] == UNATTRIBUTED, item[0]))
        return {
            code: PhaseEnergy(
                code,
                share.time_ns,
                share.energy_j,
                min(float(share.low_j[place]), share.energy_j),
                max(float(share.high_j[place]), share.energy_j),
            )
            for code, share in ordered
        }


def split(
    curve: EnergyCurve,
    begin_ns: Times,
    end_ns: Times,
    code: Times,
    run: tuple[int, int],
    powers_w: Floats,
) -> TimeShares:
    """Split the energy of a run, or of a piece of it, among its phases.

    Spans must not overlap. Σ of all energies equals the curve's energy over ``run``.

    Args:
        begin_ns, end_ns, code: the n spans, (n,) each.
        run: (begin, end) in ns.
        powers_w: powers in W, increasing, (k,); the device cannot exceed the last.
    """
    begin_ns, end_ns = np.clip(begin_ns, *run), np.clip(end_ns, *run)
    knots = _knots(curve, run)
    energy = np.diff(curve.at(knots))
    length = np.diff(knots) / 1e9
    # Outside the measured part only power's range bounds anything.
    measured = (knots[:-1] >= curve.time_ns[0]) & (knots[1:] <= curve.time_ns[-1])
    slack = curve.slack_ns / 1e9
    shares: dict[int, TimeShare] = {}
    covered = np.zeros(len(length))
    for value in np.unique(code):
        spans = code == value
        seconds = np.diff(_elapsed(begin_ns[spans], end_ns[spans], knots)) / 1e9
        joules = float(np.sum(curve.at(end_ns[spans]) - curve.at(begin_ns[spans])))
        shares[int(value)] = TimeShare(
            int(np.sum(end_ns[spans] - begin_ns[spans])),
            joules,
            *_bounds(energy, length, seconds, slack, measured, powers_w),
        )
        covered += seconds
    total = float(np.diff(curve.at(np.array(run, np.int64)))[0])
    rest_ns = run[1] - run[0] - sum(share.time_ns for share in shares.values())
    shares[UNATTRIBUTED] = TimeShare(
        max(0, rest_ns),
        total - sum(share.energy_j for share in shares.values()),
        *_bounds(energy, length, np.maximum(0, length - covered), slack, measured, powers_w),
    )
    return TimeShares(powers_w, shares)


def _knots(curve: EnergyCurve, run: tuple[int, int]) -> Times:
    inside = curve.time_ns[(curve.time_ns > run[0]) & (curve.time_ns < run[1])]
    return np.concatenate([[run[0]], inside, [run[1]]]).astype(np.int64)


def _elapsed(begin_ns: Times, end_ns: Times, at: Times) -> Floats:
    """Time in ns (m,) spent in the n given spans up to each instant of ``at`` (m,)."""
    corners = np.stack([begin_ns, end_ns], axis=1).ravel()
    spent = np.repeat(np.cumsum(end_ns - begin_ns), 2)
    spent[::2] -= end_ns - begin_ns
    return np.asarray(np.interp(at, corners, spent), dtype=np.float64)


def _bounds(
    energy: Floats, length: Floats, seconds: Floats, slack: float, measured: Bools, powers_w: Floats
) -> tuple[Floats, Floats]:
    """(low, high) of what one phase can have used in m intervals, in J, (k,) each.

    Args:
        energy, length, seconds: of each interval its energy, its length, and how long the phase ran
            in it, (m,) each.
        slack: seconds by which an interval's ends are unsure.
        measured: intervals whose energy is known, (m,).
        powers_w: (k,).
    """
    touched = seconds > 0
    energy, length, seconds = energy[touched], length[touched], seconds[touched]
    measured = measured[touched]
    more = np.minimum(length, seconds + slack)
    less = np.where(seconds >= length * (1 - 1e-9), length, np.maximum(0, seconds - slack))
    joules, most = energy[measured], more[measured]
    low = _excess(joules, (length - less)[measured], powers_w)
    high = joules.sum() - _excess(joules, most, powers_w)  # Σ min(E, P t)
    return low, high + powers_w * more[~measured].sum()


def _excess(energy: Floats, seconds: Floats, powers_w: Floats) -> Floats:
    """Σ max(0, E − P t) for every power P, (k,): hinges, each of which ends at P = E / t."""
    with np.errstate(divide="ignore", invalid="ignore"):
        end_w = energy / seconds
    order = np.argsort(end_w)
    above = np.searchsorted(end_w[order], powers_w, "right")
    joules, time = (np.append(np.cumsum(x[order][::-1])[::-1], 0.0) for x in (energy, seconds))
    return np.asarray(np.maximum(0.0, joules[above] - powers_w * time[above]))
