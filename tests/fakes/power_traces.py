"""Seeded training steps with a known power at every instant.

True power is piecewise constant over short segments inside each phase. Sensors that watch it are in
:mod:`tests.fakes.power_sensors`. Seconds, watts, joules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .power_sensors import (
    CALL_S,
    Counter,
    Floats,
    Ints,
    Lags,
    Reads,
    cumulative,
    integral_of_lagged_energy,
    lagged_energy,
    scheduled_reads,
)


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
    every: int = 1  # in the last of so many steps only


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
    # No length varies: a delay turns the step's profile, and only inner segments tell that.
    "60 ms, even": (
        Part("data", 6.0, 0.001, 120, works=False),
        Part("forward", 17.6, 0.001, 430, 6, 0.15),
        Part("backward", 31.6, 0.001, 500, 6, 0.10),
        Part("communication", 2.6, 0.001, 230),
        Part("optimizer", 4.0, 0.001, 330),
    ),
    "60 ms, checkpoints": (
        Part("data", 6.0, 0.60, 120, works=False),
        Part("forward", 17.0, 0.012, 430, 6, 0.15),
        Part("backward", 31.0, 0.012, 500, 6, 0.10),
        Part("communication", 2.5, 0.20, 230),
        Part("optimizer", 3.5, 0.03, 330),
        Part("checkpoint", 2500.0, 0.20, 140, works=False, every=150),
    ),
}


@dataclass(frozen=True, slots=True)
class World:
    """What makes power vary, and how the sensor sees it."""

    lag: Lags = ((1.0, 0.008),)  # (weight, τ in s)
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
    idle_decay: float = 0.0  # power of a wait falls by this share after a load has ended…
    idle_s: float = 2.0  # …with this time constant
    length_cv: float = 0.0  # of an input's length: all work of a step takes as much longer…
    length_power: float = 0.0  # …at a power that goes with this power of the length
    change: tuple[float, float, float] | None = None  # from (seconds) on, work takes (times), draws
    slack_s: float = 0.0  # power changes so long before or after each kind of border, as drawn
    marks_long_s: float = 0.0  # each load is so much shorter than its marks, half at either side
    edge_noise_s: float = 20e-6  # of the recorded edges
    clock_offset_s: float = 0.0  # recorded edges against the sensor's clock
    clock_drift: float = 0.0  # seconds per second


# What real cards do under a square wave: the defaults are harsher.
QUIET = World(instance_cv=0.003, drift_cv=0.003, profile_cv=0.02)


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: true power per segment, and phases as they were recorded."""

    names: tuple[str, ...]
    edges_s: Floats  # borders of segments, n + 1
    watts: Floats  # n
    span_s: Floats  # recorded borders of phase instances, m + 1
    code: Ints  # m
    lag: Lags
    border_s: Floats  # the same borders on the clock of power, without noise

    def energy(self, at_s: Floats) -> Floats:
        """Energy up to an instant as it comes out of the lags, J."""
        return lagged_energy(self.edges_s, self.watts, self.lag, at_s)

    def energy_integral(self, at_s: Floats) -> Floats:
        """:meth:`energy` integrated up to an instant, J s."""
        return integral_of_lagged_energy(self.edges_s, self.watts, self.lag, at_s)

    def truth(self, begin_s: float, end_s: float) -> Floats:
        """True energy within each phase's borders between two instants, J."""
        inside = np.clip(self.border_s, begin_s, end_s)
        joules = np.diff(np.interp(inside, self.edges_s, cumulative(self.watts, self.edges_s)))
        return np.asarray(np.bincount(self.code, joules, len(self.names)), np.float64)


def make_trace(
    parts: Sequence[Part], seconds: float, rng: np.random.Generator, world: World | None = None
) -> Trace:
    """A run of at most ``seconds`` that ends with a whole phase."""
    world = world or World()
    step_s = sum(part.ms / part.every for part in parts) / 1e3
    steps = int(np.ceil(seconds / step_s * 1.05)) + 4
    steps += sum(part.every for part in parts if part.every > 1)  # these may be short
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
    works = np.array([part.works for part in parts])
    if world.length_cv:
        (apart,) = rng.spawn(1)
        spread = np.sqrt(np.log1p(world.length_cv**2))
        length = np.exp(spread * apart.standard_normal((steps, 1)) - spread**2 / 2)
        duration = np.where(works, duration * length, duration)
        factor = np.where(works, factor * length**world.length_power, factor)
    if world.change is not None:
        at_s, longer, more = world.change
        later = works & (np.cumsum(duration.sum(1)) > at_s)[:, None]
        duration, factor = (
            np.where(later, duration * longer, duration),
            np.where(later, factor * more, factor),
        )
    inverse = duration.mean(0) / duration
    for j, part in enumerate(parts):
        if (world.constant_energy and part.works) or (world.waits and part.name == "communication"):
            factor[:, j] = factor[:, j] * inverse[:, j]
    watts = base * np.repeat(factor, count, axis=1) * common[:, None]
    pieces = np.repeat(duration / count, count, axis=1)
    if world.cap_w is not None:
        slower = np.maximum(1.0, watts / world.cap_w)
        watts, pieces = watts / slower, pieces * slower
    turn = np.arange(1, steps + 1)[:, None] % [part.every for part in parts]
    pieces = pieces * np.repeat(turn == 0, count, axis=1)
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
    rare = np.array([part.every > 1 for part in parts] + [False])[codes] & (np.diff(edges) == 0)
    edges, codes, flat = edges[np.append(~rare, True)], codes[~rare], flat[~rare]
    keep = int(np.searchsorted(edges, seconds, "right")) - 1
    while codes[keep] == codes[keep - 1]:
        keep -= 1
    edges, codes, flat = edges[: keep + 1], codes[:keep], flat[:keep]
    works = np.array([part.works for part in parts] + [False])
    if world.idle_decay:
        edges, codes, flat = _with_decay(edges, codes, flat, works, world)
    new = np.concatenate([[True], codes[1:] != codes[:-1]])
    borders, phases = np.append(edges[:-1][new], edges[-1]), codes[new]
    if world.slack_s or world.marks_long_s:  # power moves, what is recorded does not
        (apart,) = rng.spawn(1)  # the same run without them is the same otherwise
        sign = apart.choice([-1.0, 1.0], len(works))
        at = np.flatnonzero(new)[1:]
        edges = _moved(edges, at, world.slack_s * sign[codes[at]])
        idle_w = min(part.watts for part in parts)
        if world.marks_long_s:
            edges, flat = _shortened(edges, flat, at, works[codes], world.marks_long_s, idle_w)
    if world.tenant is not None:
        edges, flat = _with_tenant(edges, flat, world.tenant, rng)
    recorded = borders * (1 + world.clock_drift) + world.clock_offset_s
    recorded[1:] += world.edge_noise_s * rng.standard_normal(len(recorded) - 1)
    return Trace(names, edges, flat, np.maximum.accumulate(recorded), phases, world.lag, borders)


def _durations(part: Part, steps: int, rng: np.random.Generator) -> Floats:
    if part.cv == 0:
        return np.full(steps, part.ms / 1e3)
    sigma = np.sqrt(np.log1p(part.cv**2))
    return np.asarray(part.ms / 1e3 * np.exp(sigma * rng.standard_normal(steps) - sigma**2 / 2))


def _drift(steps: int, step_s: float, world: World, rng: np.random.Generator) -> Floats:
    keep = np.exp(-step_s / world.drift_s)
    level = np.empty(steps)
    level[0] = rng.standard_normal()
    shock = rng.standard_normal(steps) * np.sqrt(1 - keep**2)
    for i in range(1, steps):
        level[i] = keep * level[i - 1] + shock[i]
    warm = 1 + world.warm_up * (1 - np.exp(-np.arange(steps) * step_s / 30.0))
    return np.asarray((1 + world.drift_cv * level) * warm)


def _with_decay(
    edges: Floats, code: Ints, watts: Floats, works: npt.NDArray[np.bool_], world: World
) -> tuple[Floats, Ints, Floats]:
    """Waits cut into pieces of at most 50 ms, whose power falls from the end of the last load."""
    waits = ~works[code]
    count = np.where(waits, np.ceil(np.diff(edges) / 0.05), 1).astype(int).clip(1)
    ended = np.maximum.accumulate(np.where(waits, edges[0], edges[1:]))
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    length = np.repeat(np.diff(edges) / count, count)
    begin = np.repeat(edges[:-1], count) + place * length
    since = begin - np.repeat(ended, count)
    # The mean of 1 − exp(−t / τ) over a piece.
    short = np.maximum(length, 1e-12) / world.idle_s
    fallen = 1 - np.exp(-np.maximum(since, 0.0) / world.idle_s) * -np.expm1(-short) / short
    factor = 1 - world.idle_decay * fallen * np.repeat(waits, count)
    return np.append(begin, edges[-1]), np.repeat(code, count), np.repeat(watts, count) * factor


def _moved(edges: Floats, at: Ints, by_s: Floats) -> Floats:
    """Edges, those ``at`` these places moved, never past the middle of a segment."""
    room = 0.4 * np.minimum(np.diff(edges)[at], np.diff(edges)[at - 1])
    edges = edges.copy()
    edges[at] += np.clip(by_s, -room, room)
    return edges


def _shortened(
    edges: Floats, watts: Floats, at: Ints, works: npt.NDArray[np.bool_], by_s: float, idle_w: float
) -> tuple[Floats, Floats]:
    """Loads that begin and end ``by_s`` / 2 inside their marks.

    A wait beside a load goes on for longer; between two loads power is ``idle_w`` for a moment.
    """
    before, after = works[at - 1], works[at]
    half = np.minimum(by_s / 2, 0.4 * np.minimum(np.diff(edges)[at], np.diff(edges)[at - 1]))
    ends = edges.copy()
    ends[at] += half * (after & ~before) - half * before
    gap, width = at[before & after], 2 * half[before & after]
    ends = np.insert(ends, gap + 1, ends[gap] + width)
    return ends, np.insert(watts, gap, idle_w)


def _with_tenant(
    edges: Floats, watts: Floats, tenant: tuple[float, float], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Another job's power on top, switched on and off at random."""
    extra, mean_s = tenant
    switch = np.cumsum(rng.exponential(mean_s, int(4 * edges[-1] / mean_s) + 8))
    cuts = np.union1d(edges, switch[switch < edges[-1]])
    at = np.clip(np.searchsorted(edges, cuts[:-1], "right") - 1, 0, len(watts) - 1)
    on = np.searchsorted(switch, cuts[:-1], "right") % 2 == 1
    return cuts, watts[at] + extra * on


__all__ = [
    "CALL_S",
    "QUIET",
    "STEPS",
    "Counter",
    "Floats",
    "Ints",
    "Part",
    "Reads",
    "Trace",
    "World",
    "make_trace",
    "replace",
    "scheduled_reads",
]
