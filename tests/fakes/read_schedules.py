"""Energy counters that misbehave, read by a recorder that stalls; and the way from there to rows.

A schedule is one run: a training of known power, a counter with a period between 1 and 500 ms whose
updates are missed, doubled, late or go backwards, and reads that come too late, seldom, or not for
up to a minute. It goes through the functions that make a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Any

import numpy as np

from probe.analysis import device_energy
from probe.analysis.from_samples import summary
from probe.analysis.phase_rows import PhaseRows, phase_rows
from probe.analysis.statistics_source import replay
from probe.attribution.time_split import split
from probe.model import Gap, Kind, Provenance, Source
from probe.sensors.nvml.update_tracker import UpdateTracker
from probe.store.reader import Series
from probe.timeline.rank_timeline import Timeline
from tests.fakes.power_traces import CALL_S, STEPS, Floats, Reads, Trace, World, make_trace

COUNTER = Source(
    id="nvml:GPU-0:energy",
    device="gpu0",
    uuid="GPU-0",
    quantity="energy",
    unit="J",
    scale=1.0,
    kind=Kind.COUNTER,
    provenance=Provenance.MEASURED,
    method="random schedule",
    in_total=True,
)

TRAININGS = ("180 ms", "60 ms", "12 ms", "50 ms, periodic")


@dataclass(frozen=True)
class Schedule:
    """One run: what was true, what the counter did, and what was read of it."""

    trace: Trace
    period_s: float
    missed: float  # share of the updates that nothing read, or that did not come
    reads: Reads

    @property
    def end_s(self) -> float:
        """When the run ended."""
        return float(self.trace.edges_s[-1])


def random_schedule(seed: int, seconds: float) -> Schedule:
    """The schedule of this seed; half of them have a fault of each kind."""
    rng = np.random.default_rng(seed)
    parts = STEPS[str(rng.choice(TRAININGS))]
    world = World(lag=((1.0, float(rng.choice([0.0, 0.008, 0.02]))),))
    trace = make_trace(parts, seconds, rng, world)
    end = float(trace.edges_s[-1])
    period = float(np.exp(rng.uniform(np.log(0.001), np.log(0.5))))
    missed = float(rng.uniform(0, 0.6)) if rng.random() < 0.5 else 0.0
    at, value = _updates(trace, period, missed, rng)
    stalls = _stalls(end, rng)
    # How late a read may come: a quiet machine, a busy one, one that swaps.
    late_s = float(np.exp(rng.uniform(np.log(1e-4), np.log(0.05))))
    every_s = 0.0 if rng.random() < 0.7 else float(np.exp(rng.uniform(np.log(2e-3), np.log(1.0))))
    reads = _read(at, value, end, every_s, late_s, stalls, rng)
    seen = int(np.count_nonzero(np.diff(reads.joules))) if len(reads.joules) else 0
    return Schedule(trace, period, max(0.0, 1 - seen * period / end), reads)


def _updates(
    trace: Trace, period_s: float, missed: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(instants, values in J) of a counter with faults."""
    end = float(trace.edges_s[-1])
    at = np.arange(rng.uniform(0, period_s), end, period_s * (1 + rng.uniform(-0.005, 0.005)))
    at = at + rng.choice([0.0002, 0.01, 0.03]) * period_s * rng.standard_normal(len(at))
    at = np.sort(at[rng.random(len(at)) >= missed])
    energy = trace.energy(np.clip(at, 0, end))
    if rng.random() < 0.5:  # late: the value is that of its time, but appears later
        at = at + np.where(rng.random(len(at)) < 0.1, rng.uniform(0, 0.9, len(at)) * period_s, 0.0)
    if rng.random() < 0.5:  # doubled: two thirds first, the rest a moment later
        twice = np.flatnonzero(rng.random(len(at)) < 0.1)[1:]
        before = energy[twice - 1] + (energy[twice] - energy[twice - 1]) * 2 / 3
        at = np.concatenate([at, at[twice] - 0.1 * period_s])
        energy = np.concatenate([energy, before])
    order = np.argsort(at, kind="stable")
    at, energy = at[order], np.maximum.accumulate(energy[order])
    value = 1e3 + np.floor(energy * 1e3) / 1e3
    if rng.random() < 0.5 and len(at) > 4:  # backwards for one update
        for place in rng.integers(2, len(at), 3):
            value[place] -= rng.uniform(0.001, 50.0)
    for _ in range(int(rng.integers(0, 3))):  # a reset
        if len(at) > 4:
            place = int(rng.integers(2, len(at)))
            value[place:] -= value[place] - 0.001
    return at, value


def _stalls(end_s: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """When nothing is read, up to three times 0.1 to 60 s, at most half of the run."""
    stalls: list[tuple[float, float]] = []
    for begin in np.sort(rng.uniform(0, end_s, int(rng.integers(0, 4)))):
        length = min(float(np.exp(rng.uniform(np.log(0.1), np.log(60.0)))), end_s / 6)
        if not stalls or begin > stalls[-1][1]:
            stalls.append((float(begin), min(float(begin) + length, end_s)))
    return stalls


def _read(
    at_s: Floats,
    value: Floats,
    end_s: float,
    every_s: float,
    late_s: float,
    stalls: list[tuple[float, float]],
    rng: np.random.Generator,
) -> Reads:
    """What a reader sees that follows the product's schedule, or reads every so many seconds."""
    tracker = UpdateTracker(0, Random(int(rng.integers(2**31))))
    times: list[float] = []
    spans: list[float] = []
    seen: list[int] = []
    next_s, last = 0.0, -2
    while True:
        begin = max(next_s + rng.exponential(late_s), times[-1] if times else 0.0)
        for stall in stalls:
            if stall[0] <= begin < stall[1]:
                begin = stall[1]
        # The call itself is held up now and then: the machine stalls while it is in the driver.
        span = CALL_S if rng.random() < 0.99 else CALL_S + rng.exponential(late_s)
        if begin + span > end_s:
            break
        place = int(np.searchsorted(at_s, begin + span / 2, "right")) - 1
        tracker.observe(round((begin + span / 2) * 1e9), place != last and last >= -1)
        next_s = begin + every_s if every_s else tracker.next_ns / 1e9
        times.append(begin + span)
        spans.append(span)
        seen.append(place)
        last = place
    index = np.array(seen, np.int64)
    first = value[0] - 1.0 if len(value) else 1e3
    joules = np.where(index >= 0, value[np.maximum(index, 0)] if len(value) else first, first)
    return Reads(np.array(times), np.array(spans), joules)


def series_of(schedule: Schedule) -> Series:
    """The reads as the store returns them."""
    reads = schedule.reads
    time_ns = np.round(reads.time_s * 1e9).astype(np.int64)
    return Series(COUNTER, time_ns, reads.joules, np.round(reads.span_s * 1e9).astype(np.int64))


def timeline_of(trace: Trace) -> Timeline:
    """The trace's phases as they were recorded."""
    edges = np.round(trace.span_s * 1e9).astype(np.int64)
    first = 32
    return Timeline(
        rank=0,
        begin_ns=edges[:-1],
        end_ns=edges[1:],
        code=trace.code + first,
        entered=np.ones(len(trace.code), np.bool_),
        step_ns=edges[1:][trace.code == trace.code.max()],
        names={first + place: name for place, name in enumerate(trace.names)},
        inferred=np.zeros(len(trace.code), np.bool_),
    )


@dataclass(frozen=True)
class Outcome:
    """What a report would say of a schedule."""

    energy_j: float | None  # of the device; None: it hardly moved
    rows: PhaseRows
    power: dict[str, Any] | None


def outcome(schedule: Schedule) -> Outcome:
    """From the reads to the rows of a report, through the product's functions."""
    run = (0, round(schedule.end_s * 1e9))
    series, timeline = series_of(schedule), timeline_of(schedule.trace)
    gaps: list[Gap] = []
    (device,) = device_energy.devices([device_energy.MeterReadings(COUNTER, summary(series, gaps))])
    if device.curve is None:
        return Outcome(None, PhaseRows(), None)
    powers = np.array([device.highest_w])
    shares = split(device.curve, timeline.begin_ns, timeline.end_ns, timeline.code, run, powers)
    statistics = replay(series, timeline, run, 0, []) if len(series.time_ns) > 1 else None
    rows = phase_rows(device, timeline.totals(), run, "gpu0", shares, statistics)
    return Outcome(
        device_energy.energy_of(device.curve, run), rows, device_energy.power_row(device, run)
    )


def closure(result: Outcome) -> float:
    """How far the rows are from adding up to the device's energy, as a share of it."""
    assert result.energy_j is not None
    rows = [row.energy_j for row in result.rows.phases if row.energy_j is not None]
    return abs(fsum(rows) - result.energy_j) / max(1.0, abs(result.energy_j))
