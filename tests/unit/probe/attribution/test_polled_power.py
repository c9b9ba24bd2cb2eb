"""Power readings as a meter: refreshes dated, windows found, joules that hold or are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probe.analysis.sensor_response import response_row
from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import Estimate, estimate
from probe.attribution.meter.power_updates import PowerUpdateFinder
from probe.attribution.meter.updates import Updates
from probe.attribution.response.response import Response
from probe.attribution.spans import Spans
from probe.model import Status
from tests.fakes.power_sensors import Floats, PolledPower, Reads, scheduled_reads
from tests.fakes.power_traces import STEPS, Trace, World, make_trace

SHARP = World(lag=((1.0, 0.0),))


def scene(
    seed: int, sensor: PolledPower, world: World = SHARP, step: str = "60 ms", seconds: float = 60.0
) -> tuple[Trace, Reads, Floats, Floats]:
    """(trace, reads, instants and values of the refreshes)."""
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS[step], seconds, rng, world)
    at, value = sensor.updates(trace, rng)
    return trace, scheduled_reads(at, value, float(trace.edges_s[-1]), rng), at, value


def dated(reads: Reads, pieces: int = 1, interrupted: int | None = None) -> Updates:
    finder = PowerUpdateFinder()
    edges = np.linspace(0, len(reads.time_s), pieces + 1).astype(int)
    parts = []
    for number, (a, b) in enumerate(itertools.pairwise(edges)):
        parts.append(finder.feed(reads.time_s[a:b], reads.span_s[a:b], reads.joules[a:b]))
        if number == interrupted:
            finder.interrupt()
    return Updates.concat([*parts, finder.finish()])


@pytest.mark.parametrize("interrupted", [None, 20])
@pytest.mark.parametrize("missed", [0.0, 0.1])
def test_an_update_has_the_joules_of_its_own_reading(
    missed: float, interrupted: int | None
) -> None:
    _, reads, at, value = scene(1, PolledPower(0.1, missed=missed), seconds=40.0)
    updates = dated(reads, 37, interrupted)
    place = np.abs(updates.time_s[:, None] - at[None]).argmin(1)
    assert np.abs(updates.time_s - at[place]).max() < 0.005
    added = np.diff(updates.joules)
    usable = ~updates.fresh[1:]
    period_s = float(np.median(np.diff(at)))
    assert added[usable] == pytest.approx(value[place[1:]][usable] * period_s, rel=0.003)
    assert not added[~usable].any()
    # A refresh that did not come, or that was not looked at, is never made up for.
    gaps = np.diff(updates.time_s) > 1.5 * period_s
    assert updates.fresh[1:][gaps].all()
    assert usable.mean() > 0.75
    if interrupted is not None:
        later = np.flatnonzero(updates.fresh)[1:]  # the first one only begins
        assert len(later)


def test_how_reads_are_cut_does_not_matter() -> None:
    _, reads, _, _ = scene(2, PolledPower(0.1, missed=0.05), seconds=30.0)
    whole, cut = dated(reads), dated(reads, 41)
    for name in ("time_s", "sigma_s", "slack_s", "horizon_s", "fresh"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name
    assert cut.joules == pytest.approx(whole.joules, rel=1e-12)


def test_a_reading_that_moves_at_every_read_dates_nothing() -> None:
    time_s = np.arange(4000) * 0.01
    watts = 300 + 50 * np.random.default_rng(0).standard_normal(4000)
    updates = dated(Reads(time_s, np.full(4000, 1e-4), watts))
    assert updates.fresh.all() or not len(updates)


def watched(
    seed: int, sensor: PolledPower, hint: Response | None = None, **more: object
) -> tuple[Estimate, Floats, Floats]:
    """(estimate, true joules, joules by time)."""
    trace, reads, _, _ = scene(seed, sensor, **more)  # type: ignore[arg-type]
    accumulator = Accumulator(None, PowerUpdateFinder(), polled=True, hint=hint)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    statistics = accumulator.finish()
    inside = np.diff(np.clip(trace.span_s, statistics.begin_s, statistics.end_s))
    seconds = np.bincount(trace.code, inside, len(trace.names))
    truth = trace.truth(statistics.begin_s, statistics.end_s)
    truth = sensor.gain * truth + sensor.offset_w * seconds
    total = float(truth.sum())
    estimated = estimate(statistics, total, dict(enumerate(seconds.tolist())))
    assert estimated is not None
    return estimated, truth, total * seconds / seconds.sum()


SENSORS = {
    "all of the time": (PolledPower(0.1, window_s=0.1), "in time"),
    "late": (PolledPower(0.1, window_s=0.1, delay_s=0.02), "late"),
    "a bit longer": (PolledPower(0.101, window_s=0.103), "in time"),
    "1 s average": (PolledPower(0.1, window_s=1.0), "averaging"),
    "25 of 101 ms": (PolledPower(0.1012, window_s=0.025, delay_s=0.01), "part-time, late"),
    "10 of 20 ms": (PolledPower(0.02, window_s=0.01), "part-time"),
    "RTX 4090": (PolledPower(0.1, window_s=0.1, gain=1.047, offset_w=-21.6), "in time"),
}


@pytest.mark.parametrize("name", SENSORS)
def test_a_window_is_found_and_its_joules_hold(name: str) -> None:
    sensor, words = SENSORS[name]
    resolved = held = 0
    for seed in (11,):
        estimated, truth, by_time = watched(seed, sensor)
        response = response_row(estimated)
        assert response.kind == words
        assert response.window_s == pytest.approx(sensor.window_s, rel=0.05, abs=0.002)
        phases = [estimated.of(j) for j in range(len(truth))]
        assert phases[1].status is phases[2].status is Status.RESOLVED
        for phase, true in zip(phases, truth, strict=True):
            if phase.status is Status.RESOLVED:
                resolved += 1
                held += phase.low_j <= true <= phase.high_j
        energy = np.array([phase.energy_j for phase in phases])
        off, usual = (np.abs(joules - truth).sum() for joules in (energy, by_time))
        assert off < usual / 3
    assert held >= resolved - 1


def test_steps_that_are_locked_to_the_refresh_are_refused() -> None:
    sensor = PolledPower(0.1, window_s=0.1, skew=0.0, jitter_s=0.0)
    estimated, truth, _ = watched(5, sensor, step="50 ms, periodic")
    phases = [estimated.of(j) for j in range(len(truth))]
    assert not [phase for phase in phases if phase.status is Status.RESOLVED]
    assert "locked" in {phase.why for phase in phases}


@pytest.mark.parametrize(
    "hint",
    [Response.part_time(0.1), Response.part_time(0.025), Response.part_time(1.0, 0.04)],
    ids=["right", "part-time", "average"],
)
def test_a_wrong_entry_of_the_database_costs_next_to_nothing(hint: Response) -> None:
    sensor = SENSORS["all of the time"][0]
    errors = []
    for given in (None, hint):
        estimated, truth, _ = watched(11, sensor, given)
        energy = np.array([estimated.of(j).energy_j for j in range(len(truth))])
        errors.append(float(np.abs(energy - truth).sum() / truth.sum()) / 2)
        assert response_row(estimated).window_s == pytest.approx(0.1, abs=0.003)
    # A tenth of the accuracy, and a tenth of a per mille where there is next to nothing to lose.
    assert errors[1] <= 1.1 * errors[0] + 1e-4
