"""How busy each phase kept a unit: worlds of known levels, read as real meters tell them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from probe.analysis.rates import rate_rows
from probe.analysis.statistics_source import replay
from probe.attribution.arrays import Floats
from probe.model import DeviceKind, Kind, Provenance, Source, Status
from probe.ring.layout import CODE_OF_PHASE
from probe.store.reader import Series
from probe.timeline.rank_timeline import Timeline

WORLDS = 60 if os.environ.get("PROVE") else 12  # of each meter
SECONDS = 40.0
PHASES = {
    "data": (0.006, 0.5),
    "forward": (0.022, 0.2),
    "backward": (0.037, 0.2),
    "optimizer": (0.009, 0.3),
}


@dataclass(frozen=True)
class World:
    """Phases of lengths that vary, and a level in each that varies around its own."""

    edges_s: Floats  # (spans + 1,)
    code: np.ndarray
    level: Floats  # of each span

    @classmethod
    def of(cls, random: np.random.Generator, levels: dict[str, float]) -> World:
        steps = int(SECONDS / sum(seconds for seconds, _ in PHASES.values()))
        lengths, codes, level = [], [], []
        for name, (seconds, spread) in PHASES.items():
            lengths.append(seconds * random.lognormal(0, spread, steps))
            codes.append(np.full(steps, CODE_OF_PHASE[name]))
            level.append(levels[name] * random.uniform(0.9, 1.1, steps))
        length = np.stack(lengths, 1).ravel()
        return cls(
            np.concatenate([[0.0], np.cumsum(length)]),
            np.stack(codes, 1).ravel(),
            np.stack(level, 1).ravel(),
        )

    def integral(self, at_s: Floats) -> Floats:
        """Of the level up to some instants."""
        total = np.concatenate([[0.0], np.cumsum(self.level * np.diff(self.edges_s))])
        return np.interp(at_s, self.edges_s, total)

    def truth(self, name: str) -> float:
        """The mean level in a phase."""
        here = self.code == CODE_OF_PHASE[name]
        length = np.diff(self.edges_s)[here]
        return float(self.level[here] @ length / length.sum())


def source(quantity: str, kind: Kind, resolution_s: float | None) -> Source:
    of_rank = quantity == "cpu_time"
    return Source(
        id=quantity,
        device="rank0" if of_rank else "gpu0",
        device_kind=DeviceKind.RANK if of_rank else DeviceKind.ACCELERATOR,
        index=0,
        quantity=quantity,
        unit="s" if of_rank else "ratio",
        kind=kind,
        provenance=Provenance.MEASURED,
        resolution_s=resolution_s,
    )


def series(
    quantity: str, world: World, random: np.random.Generator, tick_s: float | None = None
) -> Series:
    """Reads of the world's level, as each meter gives them; CPU time is counted at ticks."""
    end_s = float(world.edges_s[-1])
    if quantity == "cpu_time":
        at = np.cumsum(0.05 * random.uniform(0.6, 1.4, int(end_s / 0.05)))
        at = at[at < end_s]
        counted_s = at if tick_s is None else np.floor(at / tick_s) * tick_s
        value, of = world.integral(counted_s), source(quantity, Kind.COUNTER, tick_s)
    else:
        window_s = 0.2 if quantity == "sm_activity" else 1 / 6
        jitter = 0.002 if quantity == "sm_activity" else 0.0  # the driver samples on its own clock
        at = np.arange(0.1, end_s, window_s)
        at = at + random.normal(0, jitter, len(at))
        value = np.diff(world.integral(at), prepend=0.0) / np.diff(at, prepend=0.0)
        if quantity == "kernel_time":
            value = np.round(value, 2)  # in percent
        of = source(quantity, Kind.GAUGE, window_s)
    time_ns = np.round(1e9 * at).astype(np.int64)
    span_ns = np.full(len(at), 3_000 if quantity == "cpu_time" else 0, np.int64)
    return Series(of, time_ns, value, span_ns)


def timeline(world: World) -> Timeline:
    edges_ns = np.round(1e9 * world.edges_s).astype(np.int64)
    no = np.zeros(len(world.code), np.bool_)
    names = {code: name for name, code in CODE_OF_PHASE.items()}
    steps = edges_ns[len(PHASES) :: len(PHASES)]
    return Timeline(0, edges_ns[:-1], edges_ns[1:], world.code, ~no, steps, names, no)


@pytest.mark.parametrize(
    ("quantity", "tick_s", "least_stated"),
    [
        ("sm_activity", None, 0.6),
        ("kernel_time", None, 0.6),
        ("cpu_time", None, 0.6),
        ("cpu_time", 0.001, 0.6),
        ("cpu_time", 0.004, 0.35),  # phases of 6 and 9 ms are refused, and half of the others
    ],
)
def test_intervals_hold_the_level_of_each_phase(
    quantity: str, tick_s: float | None, least_stated: float
) -> None:
    held = stated = phases = 0
    for seed in range(WORLDS):
        random = np.random.default_rng([seed, len(quantity)])
        most = 3.0 if quantity == "cpu_time" else 1.0
        levels = {
            name: float(level)
            for name, level in zip(PHASES, random.uniform(0, most, 4), strict=True)
        }
        if most == 1.0:
            levels = {name: 0.9 * level for name, level in levels.items()}
        world = World.of(random, levels)
        spans = timeline(world)
        readings = series(quantity, world, random, tick_s)
        run = 0, int(1e9 * world.edges_s[-1])
        statistics = replay(readings, spans, run, 0, [])
        totals = spans.totals()
        rows = rate_rows(
            readings.source, totals.seconds, spans.name, run[1] / 1e9, statistics, totals.counts
        )
        for row in rows:
            if row.phase not in PHASES:
                continue
            phases += 1
            if row.status is Status.RESOLVED:
                assert row.interval is not None
                low, high = row.interval
                stated += 1
                held += low <= world.truth(row.phase) <= high
    print(f"{quantity}: {held} of {stated} resolved intervals hold; {stated} of {phases} resolved")
    assert phases == WORLDS * len(PHASES)
    assert stated >= least_stated * phases
    assert held >= 0.93 * stated


@pytest.mark.parametrize("moves_at", [None, 2, 200, -1])
def test_a_counter_that_hardly_ever_moves(moves_at: int | None) -> None:
    """Most cards are never power-capped: then each phase is known, else none is."""
    random = np.random.default_rng(5)
    world = World.of(random, dict.fromkeys(PHASES, 0.0))
    end_s = float(world.edges_s[-1])
    at = np.cumsum(0.1 * random.uniform(0.95, 1.05, int(end_s / 0.1) - 20))
    value = np.zeros(len(at))
    if moves_at is not None:
        value[moves_at:] = 0.01
    spans, run = timeline(world), (0, int(1e9 * end_s))
    counter = replace(source("power_cap_time", Kind.COUNTER, None), unit="s")
    readings = Series(
        counter, np.round(1e9 * at).astype(np.int64), value, np.full(len(at), 3_000, np.int64)
    )
    statistics = replay(readings, spans, run, 0, [])
    totals = spans.totals()
    rows = rate_rows(counter, totals.seconds, spans.name, end_s, statistics, totals.counts)
    for row in rows:
        if moves_at is None:
            assert (row.value, row.interval, row.status) == (0.0, (0.0, 0.0), Status.RESOLVED)
        else:
            assert row.value is None or row.status is not Status.RESOLVED
