"""Seeded training steps with a known power at every instant, and sensors that watch them.

True power is piecewise constant over short segments inside each phase; a first-order lag
(or a mixture of lags) between board and sensor has a closed form::

    E_lag(t) = E(t) − Σ w τ (y_τ(t) − y_τ(0)),   y_τ = power, filtered with time constant τ

so everything is exact and nothing is stepped through time. Seconds, watts, joules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import numpy.typing as npt

from probe.sensors.nvml.update_tracker import UpdateTracker

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of a step: mean duration, its CV, power, inner segments, power's ramp."""

    name: str
    ms: float
    cv: float
    watts: float
    segments: int = 1
    ramp: float = 0.0  # power goes from 1 − ramp to 1 + ramp
    works: bool = True  # a fixed amount of work; False: a wait that draws a power


STEPS: dict[str, tuple[Part, ...]] = {
    "180 ms": (
        Part("data", 3.0, 0.60, 125, works=False),
        Part("forward", 52.0, 0.010, 560, 12, 0.10),
        Part("backward", 105.0, 0.010, 620, 12, 0.08),
        Part("communication", 12.0, 0.15, 270),
        Part("optimizer", 8.0, 0.02, 390, 2, 0.05),
    ),
    "60 ms": (
        Part("data", 6.0, 0.60, 120, works=False),
        Part("forward", 17.0, 0.012, 430, 6, 0.15),
        Part("backward", 31.0, 0.012, 500, 6, 0.10),
        Part("communication", 2.5, 0.20, 230),
        Part("optimizer", 3.5, 0.03, 330),
    ),
    "12 ms": (
        Part("data", 1.5, 0.40, 110, works=False),
        Part("forward", 3.5, 0.03, 260, 2, 0.05),
        Part("backward", 5.0, 0.03, 310, 2, 0.05),
        Part("optimizer", 2.0, 0.05, 210),
    ),
    "50 ms, periodic": (
        Part("data", 4.0, 0.0, 120, works=False),
        Part("forward", 15.0, 0.0, 430, 4, 0.10),
        Part("backward", 26.0, 0.0, 500, 4, 0.10),
        Part("optimizer", 5.0, 0.0, 330),
    ),
}


@dataclass(frozen=True, slots=True)
class World:
    """What makes power vary, and how the sensor sees it."""

    lag: tuple[tuple[float, float], ...] = ((1.0, 0.008),)  # (weight, τ in s)
    instance_cv: float = 0.02  # of each instance's power, independent
    drift_cv: float = 0.015  # clock and boost: AR(1) over all phases…
    drift_s: float = 5.0  # …with this time constant
    warm_up: float = 0.02  # power rises by this much, time constant 30 s
    profile_cv: float = 0.05  # of a phase's inner segments, fixed in a run
    constant_energy: bool = False  # a slow instance of work draws less power
    cap_w: float | None = None  # power cap: work above it takes longer instead
    waits: bool = False  # communication is a wait for others: constant energy per instance
    tenant: tuple[float, float] | None = None  # (watts, mean seconds on and off) of another job
    dither: tuple[int, float, float] | None = None  # one step in n sleeps U(0, s) at watts
    edge_noise_s: float = 20e-6  # of the recorded edges
    clock_offset_s: float = 0.0  # recorded edges against the sensor's clock
    clock_drift: float = 0.0  # seconds per second


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: true power per segment, phases as they were, and as they were recorded."""

    names: tuple[str, ...]
    edges_s: Floats  # borders of segments, n + 1
    watts: Floats  # n
    segment_code: Ints  # n
    span_s: Floats  # recorded borders of phase instances, m + 1
    code: Ints  # m
    lag: tuple[tuple[float, float], ...]

    def energy(self, at_s: Floats) -> Floats:
        """Energy up to an instant as the sensor will have seen it, J."""
        total = np.interp(at_s, self.edges_s, _cumulative(self.watts, self.edges_s))
        for weight, tau in self.lag:
            if tau > 0:
                filtered = first_order(self.edges_s, self.watts, tau)
                k = np.clip(
                    np.searchsorted(self.edges_s, at_s, "right") - 1, 0, len(self.watts) - 1
                )
                decay = np.exp(-(at_s - self.edges_s[k]) / tau)
                now = self.watts[k] + (filtered[k] - self.watts[k]) * decay
                total = total - weight * tau * (now - filtered[0])
        return np.asarray(total)

    def truth(self, begin_s: float, end_s: float) -> Floats:
        """True energy per phase between two instants, J."""
        ends = np.array([begin_s, end_s])
        return np.array(
            [
                np.diff(
                    np.interp(
                        ends,
                        self.edges_s,
                        _cumulative(self.watts * (self.segment_code == j), self.edges_s),
                    )
                )[0]
                for j in range(len(self.names))
            ]
        )


def _cumulative(watts: Floats, edges_s: Floats) -> Floats:
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


def make_trace(
    parts: Sequence[Part], seconds: float, rng: np.random.Generator, world: World | None = None
) -> Trace:
    """A run of at most ``seconds`` that ends with a whole phase."""
    world = world or World()
    step_s = sum(part.ms for part in parts) / 1e3
    steps = int(np.ceil(seconds / step_s * 1.05)) + 4
    duration = np.stack([_durations(part, steps, rng) for part in parts], 1)
    count = np.array([part.segments for part in parts])
    shape = np.concatenate(
        [
            1
            + part.ramp * (np.linspace(-1, 1, part.segments) if part.segments > 1 else np.zeros(1))
            for part in parts
        ]
    )
    layered = np.repeat(count, count) > 1
    shape = shape * (1 + world.profile_cv * rng.standard_normal(len(shape)) * layered)
    base = np.repeat([part.watts for part in parts], count) * shape
    factor = 1 + world.instance_cv * rng.standard_normal(duration.shape)
    common = _drift(steps, step_s, world, rng)
    inverse = duration.mean(0) / duration
    for j, part in enumerate(parts):
        if (world.constant_energy and part.works) or (world.waits and part.name == "communication"):
            factor[:, j] = factor[:, j] * inverse[:, j]
    watts = base * np.repeat(factor, count, axis=1) * common[:, None]
    pieces = np.repeat(duration / count, count, axis=1)
    if world.cap_w is not None:
        slower = np.maximum(1.0, watts / world.cap_w)
        watts, pieces = watts / slower, pieces * slower
    code = np.repeat(np.arange(len(parts)), count)
    names = tuple(part.name for part in parts)
    if world.dither is not None:
        every, longest, idle_w = world.dither
        sleep = np.where(rng.random(steps) < 1 / every, rng.uniform(0, longest, steps), 0.0)
        pieces = np.concatenate([pieces, sleep[:, None]], 1)
        watts = np.concatenate([watts, np.full((steps, 1), idle_w)], 1)
        code, names = np.append(code, len(parts)), (*names, "dither")
    edges = np.concatenate([[0.0], np.cumsum(pieces.ravel())])
    codes, flat = np.tile(code, steps), watts.ravel()
    keep = int(np.searchsorted(edges, seconds, "right")) - 1
    while codes[keep] == codes[keep - 1]:
        keep -= 1
    edges, codes, flat = edges[: keep + 1], codes[:keep], flat[:keep]
    if world.tenant is not None:
        edges, codes, flat = _with_tenant(edges, codes, flat, world.tenant, rng)
    new = np.concatenate([[True], codes[1:] != codes[:-1]])
    recorded = np.append(edges[:-1][new], edges[-1])
    recorded = recorded * (1 + world.clock_drift) + world.clock_offset_s
    recorded[1:] += world.edge_noise_s * rng.standard_normal(len(recorded) - 1)
    return Trace(names, edges, flat, codes, np.maximum.accumulate(recorded), codes[new], world.lag)


def _durations(part: Part, steps: int, rng: np.random.Generator) -> Floats:
    if part.cv == 0:
        return np.full(steps, part.ms / 1e3)
    sigma = np.sqrt(np.log1p(part.cv**2))
    return part.ms / 1e3 * np.exp(sigma * rng.standard_normal(steps) - sigma**2 / 2)


def _drift(steps: int, step_s: float, world: World, rng: np.random.Generator) -> Floats:
    keep = np.exp(-step_s / world.drift_s)
    level = np.empty(steps)
    level[0] = rng.standard_normal()
    shock = rng.standard_normal(steps) * np.sqrt(1 - keep**2)
    for i in range(1, steps):
        level[i] = keep * level[i - 1] + shock[i]
    warm = 1 + world.warm_up * (1 - np.exp(-np.arange(steps) * step_s / 30.0))
    return np.asarray((1 + world.drift_cv * level) * warm)


def _with_tenant(
    edges: Floats, code: Ints, watts: Floats, tenant: tuple[float, float], rng: np.random.Generator
) -> tuple[Floats, Ints, Floats]:
    """Another job's power on top, switched on and off at random."""
    extra, mean_s = tenant
    switch = np.cumsum(rng.exponential(mean_s, int(4 * edges[-1] / mean_s) + 8))
    cuts = np.union1d(edges, switch[switch < edges[-1]])
    at = np.clip(np.searchsorted(edges, cuts[:-1], "right") - 1, 0, len(code) - 1)
    on = np.searchsorted(switch, cuts[:-1], "right") % 2 == 1
    return cuts, code[at], watts[at] + extra * on


# -- sensors -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counter:
    """An energy counter: update period, how far it is off, how much it jitters."""

    period_s: float = 0.1
    skew: float = 0.005  # the true period differs by up to this share
    jitter_s: float = 0.0002
    missed: float = 0.0  # share of updates that do not come
    reset_s: float | None = None  # the counter starts anew at this time
    grain_j: float = 0.001

    def updates(self, trace: Trace, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """(instants, values in J)."""
        period = self.period_s * (1 + (rng.uniform(-1, 1) * self.skew if self.skew else 0.0))
        end = float(trace.edges_s[-1])
        count = int(end / period) - 1
        at = rng.uniform(0, period) + np.arange(count) * period
        at = at + self.jitter_s * rng.standard_normal(count)
        at = at[(at > 0) & (at < end)]
        if self.missed:
            at = at[rng.random(len(at)) >= self.missed]
        value = np.floor(trace.energy(at) / self.grain_j) * self.grain_j
        if self.reset_s is not None:
            after = at >= self.reset_s
            value[after] -= value[after][0] - self.grain_j
        return at, value


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


__all__ = [
    "STEPS",
    "Counter",
    "Part",
    "Reads",
    "Trace",
    "World",
    "make_trace",
    "replace",
    "scheduled_reads",
]
