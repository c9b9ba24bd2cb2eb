"""What an energy counter shows of a power that is known, and what a reader sees of the counter.

Power is piecewise constant, so every response is exact and nothing is stepped through time. A
first-order lag (or a mixture of lags) between board and sensor has a closed form::

    E_lag(t) = E(t) − Σ w τ (y_τ(t) − y_τ(0)),   y_τ = power, filtered with time constant τ

and so has its integral, which a moving average takes differences of, since ∫ y_τ = E − τ y_τ.
Before the first instant power was that of the first segment, for ever. Seconds, watts, joules.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from probe.sensors.nvml.update_tracker import UpdateTracker

if TYPE_CHECKING:
    from .power_traces import Trace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Lags = tuple[tuple[float, float], ...]  # (weight, τ in s)

WANDER_S = 4.0  # time constant of the lattice's wander, twice over: swings of some 10 s


def cumulative(watts: Floats, edges_s: Floats) -> Floats:
    """Energy at each of the n + 1 edges of n segments, J."""
    return np.concatenate([[0.0], np.cumsum(watts * np.diff(edges_s))])


def first_order(edges_s: Floats, rate: Floats, tau: float) -> Floats:
    """A piecewise constant rate through a first-order lag, at the edges; starts settled."""
    out = np.empty(len(edges_s))
    out[0] = rate[0]
    i, n = 0, len(rate)
    while i < n:  # blocks in which exp() does not overflow
        j = min(max(int(np.searchsorted(edges_s, edges_s[i] + 30 * tau, "right")) - 1, i + 1), n)
        if j == i + 1:
            decay = np.exp(-(edges_s[j] - edges_s[i]) / tau)
            out[j] = rate[i] + (out[i] - rate[i]) * decay
        else:
            grow = np.exp((edges_s[i : j + 1] - edges_s[i]) / tau)
            out[i + 1 : j + 1] = (out[i] + np.cumsum(rate[i:j] * np.diff(grow))) / grow[1:]
        i = j
    return out


def lagged_energy(edges_s: Floats, watts: Floats, lags: Lags, at_s: Floats) -> Floats:
    """Energy up to each instant as it comes out of the lags, J; before the first edge negative."""
    total = _energy(edges_s, watts, at_s)
    for weight, tau in lags:
        if tau > 0:
            now = _lagged_power(edges_s, watts, tau, at_s)
            total = total - weight * tau * (now - watts[0])
    return np.asarray(total)


def integral_of_lagged_energy(edges_s: Floats, watts: Floats, lags: Lags, at_s: Floats) -> Floats:
    """:func:`lagged_energy` integrated from the first edge to each instant, J s."""
    k = _segment(edges_s, at_s)
    since = at_s - edges_s[k]
    joules, lengths = cumulative(watts, edges_s), np.diff(edges_s)
    whole = np.cumsum(joules[:-1] * lengths + watts * lengths**2 / 2)
    total = np.concatenate([[0.0], whole])[k] + joules[k] * since + watts[k] * since**2 / 2
    for weight, tau in lags:
        if tau > 0:
            rise = _lagged_power(edges_s, watts, tau, at_s) - watts[0]
            held = _energy(edges_s, watts, at_s) - tau * rise - watts[0] * (at_s - edges_s[0])
            total = total - weight * tau * held
    return np.asarray(total)


def _segment(edges_s: Floats, at_s: Floats) -> Ints:
    return np.clip(np.searchsorted(edges_s, at_s, "right") - 1, 0, len(edges_s) - 2)


def _energy(edges_s: Floats, watts: Floats, at_s: Floats) -> Floats:
    inside = np.interp(at_s, edges_s, cumulative(watts, edges_s))
    return np.asarray(inside + watts[0] * np.minimum(at_s - edges_s[0], 0.0))


def _lagged_power(edges_s: Floats, watts: Floats, tau: float, at_s: Floats) -> Floats:
    filtered = first_order(edges_s, watts, tau)
    k = _segment(edges_s, at_s)
    decay = np.exp(-np.maximum(at_s - edges_s[k], 0.0) / tau)
    return np.asarray(watts[k] + (filtered[k] - watts[k]) * decay)


@dataclass(frozen=True, slots=True)
class Counter:
    """An energy counter: when it is updated, and what it then shows.

    The response is that of the trace's lags, then of ``average_s`` and ``delay_s``; of what comes
    out ``part`` of each period is integrated, and the counter shows gain × power + offset.
    """

    period_s: float = 0.1
    period_skew: float = 0.0  # the true period differs by this share…
    skew: float = 0.005  # …and by up to this one, drawn anew for each run
    jitter_s: float = 0.0002
    wander_s: float = 0.0  # sd of a smooth wander of the update instants, some 10 s long
    missed: float = 0.0  # share of updates that do not come
    reset_s: float | None = None  # the counter starts anew at this time
    grain_j: float = 0.001
    delay_s: float = 0.0  # an update shows the energy of so long ago…
    later: tuple[float, float] = (0.0, 0.0)  # …and from this time on of so much longer ago
    average_s: float = 0.0  # power is a moving average over this long
    part: float = 1.0  # share of a period, at its end, whose mean power stands for all of it
    gain: float = 1.0
    offset_w: float = 0.0

    def updates(self, trace: Trace, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """(instants, values in J)."""
        skew = rng.uniform(-1, 1) * self.skew if self.skew else 0.0
        period = self.period_s * (1 + self.period_skew + skew)
        end = float(trace.edges_s[-1])
        count = int(end / period) - 1
        at = np.asarray(rng.uniform(0, period) + np.arange(count) * period, np.float64)
        at = np.asarray(at + self.jitter_s * rng.standard_normal(count), np.float64)
        if self.wander_s:
            at = np.maximum.accumulate(at + self.wander_s * _wander(count, period, rng))
        at = at[(at > 0) & (at < end)]
        value = np.floor(self.shown(trace, at, period) / self.grain_j) * self.grain_j
        if self.missed:
            came = rng.random(len(at)) >= self.missed
            at, value = at[came], value[came]
        if self.reset_s is not None:
            after = at >= self.reset_s
            value[after] -= value[after][0] - self.grain_j
        return at, value

    def shown(self, trace: Trace, at_s: Floats, period_s: float) -> Floats:
        """What updates at these instants show, J, before it is rounded; none is left out."""
        if self.part < 1:
            width = self.part * period_s
            watts = (self.seen_energy(trace, at_s) - self.seen_energy(trace, at_s - width)) / width
            energy = np.cumsum(watts * np.diff(at_s, prepend=at_s[:1] - period_s))
        else:
            energy = self.seen_energy(trace, at_s)
        return np.asarray(self.gain * energy + self.offset_w * at_s)

    def seen_energy(self, trace: Trace, at_s: Floats) -> Floats:
        """Energy up to an instant through lags, average and delay, J."""
        from_s, more_s = self.later
        late = at_s - self.delay_s - np.where(at_s >= from_s, more_s, 0.0)
        if not self.average_s:
            return trace.energy(late)
        begin = late - self.average_s
        return (trace.energy_integral(late) - trace.energy_integral(begin)) / self.average_s


@dataclass(frozen=True, slots=True)
class FaultyCounter(Counter):
    """A counter some of whose updates appear late, or in two parts."""

    late: float = 0.0  # share of updates: up to 0.9 of a period, with the value of their time
    doubled: float = 0.0  # share: two thirds of the energy a tenth of a period before the rest
    until_s: float = float("inf")  # it works after that

    def updates(self, trace: Trace, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """(instants, values in J)."""
        at, value = Counter.updates(self, trace, rng)
        early = at < self.until_s
        behind_s = rng.uniform(0, 0.9, len(at)) * self.period_s
        at = at + np.where(early & (rng.random(len(at)) < self.late), behind_s, 0.0)
        twice = np.flatnonzero(early & (rng.random(len(at)) < self.doubled))[1:]
        first = value[twice - 1] + (value[twice] - value[twice - 1]) * 2 / 3
        at = np.concatenate([at, at[twice] - 0.1 * self.period_s])
        value = np.concatenate([value, first])
        order = np.argsort(at, kind="stable")
        return at[order], np.maximum.accumulate(value[order])


@dataclass(frozen=True, slots=True)
class PolledPower(Counter):
    """A power reading: at each update the mean over a window that ended a delay ago, in W."""

    window_s: float = 0.1
    grain_j: float = 0.001  # of the reading, W

    def shown(self, trace: Trace, at_s: Floats, period_s: float) -> Floats:
        energy = self.seen_energy(trace, at_s) - self.seen_energy(trace, at_s - self.window_s)
        return np.asarray(self.gain * energy / self.window_s + self.offset_w)


def _wander(count: int, period_s: float, rng: np.random.Generator) -> Floats:
    """A smooth random walk about 0 with an sd of 1, a value for each update."""
    keep = float(np.exp(-period_s / WANDER_S))
    settle = int(10 * WANDER_S / period_s)
    noise = rng.standard_normal(count + settle)
    smooth = lfilter([1.0], [1.0, -2 * keep, keep * keep], noise)[settle:]
    return np.asarray((smooth - smooth.mean()) / smooth.std())


@dataclass(frozen=True, slots=True)
class Reads:
    """What a reader saw: end of each call, its duration, the value."""

    time_s: Floats
    span_s: Floats
    joules: Floats

    @property
    def per_second(self) -> float:
        return len(self.time_s) / float(self.time_s[-1] - self.time_s[0])


CALL_S = 0.00012  # NVML's energy call
LATE_S = 0.0003  # mean delay of a thread that wakes up


def scheduled_reads(at_s: Floats, value: Floats, end_s: float, rng: np.random.Generator) -> Reads:
    """Read the counter when the product's own scheduler says so."""
    lock = UpdateTracker(0, Random(int(rng.integers(2**31))))
    times: list[float] = []
    seen = -2
    seen_at: list[int] = []
    while True:
        begin = lock.next_ns / 1e9 + rng.exponential(LATE_S)
        if times:
            begin = max(begin, times[-1])
        end = begin + CALL_S
        if end > end_s:
            break
        index = int(np.searchsorted(at_s, begin + CALL_S / 2, "right")) - 1
        lock.observe(round((begin + end) / 2 * 1e9), index != seen and seen >= -1)
        seen = index
        times.append(end)
        seen_at.append(index)
    place = np.array(seen_at)
    joules = np.where(place >= 0, value[np.maximum(place, 0)], value[0] - 1.0)
    return Reads(np.array(times), np.full(len(times), CALL_S), joules)


@dataclass(frozen=True, slots=True)
class SampledCounter(Counter):
    """A counter each of whose updates adds the mean of some short samples of the period."""

    samples: int = 2  # evenly over the period, the last one at its end
    sample_s: float = 0.02

    def shown(self, trace: Trace, at_s: Floats, period_s: float) -> Floats:
        """What updates at these instants show, J, before it is rounded; none is left out."""
        watts = np.zeros(len(at_s))
        for number in range(self.samples):
            end_s = at_s - number * period_s / self.samples
            joules = self.seen_energy(trace, end_s) - self.seen_energy(trace, end_s - self.sample_s)
            watts += joules / self.sample_s / self.samples
        return np.cumsum(watts * np.diff(at_s, prepend=at_s[:1] - period_s))
