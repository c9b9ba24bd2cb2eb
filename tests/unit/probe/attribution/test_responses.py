"""Sensors that are late, slow, averaging or part-time: found, named, and held by the intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from probe.analysis.sensor_response import fit_row, fit_warning, note, response_row
from probe.attribution.accumulator import Accumulator
from probe.attribution.estimate import estimate
from probe.attribution.meter.wander import Wander
from probe.attribution.regression.lanes import LikelyLanes
from probe.attribution.response.nuisance import Tie
from probe.attribution.response.response import Kind, Response
from probe.attribution.search.search import far_from_all
from probe.attribution.spans import Spans
from probe.model import Status
from tests.fakes.power_sensors import Counter, scheduled_reads
from tests.fakes.power_traces import STEPS, World, make_trace

SHARP = ((1.0, 0.0),)


def watched(seed, lag=SHARP, response=None, step="60 ms", **counter):
    """(estimate, true J per phase) of a minute of steps."""
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS[step], 60.0, rng, World(lag=lag))
    at, value = Counter(**counter).updates(trace, rng)
    reads = scheduled_reads(at, value, float(trace.edges_s[-1]), rng)
    accumulator = Accumulator(response)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    statistics = accumulator.finish()
    inside = np.diff(np.clip(trace.span_s, statistics.begin_s, statistics.end_s))
    seconds = dict(enumerate(np.bincount(trace.code, inside).tolist()))
    total = statistics.mixed_j + float(statistics.direct()[0].sum())
    estimated = estimate(statistics, total, seconds)
    return estimated, trace.truth(statistics.begin_s, statistics.end_s)


SENSORS = {
    "in time": (World().lag, {}, 1.6),
    "late": (SHARP, {"delay_s": 0.022}, 1.3),
    "slow": (((1.0, 0.045),), {}, 3.0),
    "late, slow": (((1.0, 0.06),), {"delay_s": 0.03}, 3.5),
    "averaging": (SHARP, {"average_s": 0.025}, 3.5),
    "part-time": (SHARP, {"part": 0.25}, 1.0),
    "wandering": (World().lag, {"wander_s": 0.005}, 2.0),
}


@pytest.mark.parametrize("words", SENSORS)
def test_a_sensor_is_found_and_its_joules_hold(words):
    lag, counter, worst = SENSORS[words]
    resolved = held = 0
    off = []
    for seed in (1, 2):
        estimated, truth = watched(seed, lag, **counter)
        assert response_row(estimated).kind == words
        assert fit_row(estimated).failed is None
        assert (words == "in time") == (note(estimated) == "")
        phases = [estimated.of(j) for j in range(len(truth))]
        for phase, true in zip(phases, truth, strict=True):
            if phase.status is Status.RESOLVED:
                resolved += 1
                held += phase.low_j <= true <= phase.high_j
        energy = np.array([phase.energy_j for phase in phases])
        off.append(50 * float(np.abs(energy - truth).sum() / truth.sum()))
        assert float(estimated.energy_j.sum()) == pytest.approx(float(truth.sum()), rel=0.01)
    assert resolved >= 4 and held >= resolved - 1
    assert np.mean(off) < worst  # the split by time: 10 %


@pytest.mark.parametrize("given", [Response(), Response.of(0.0, 0.008)], ids=str)
def test_a_response_that_is_not_the_sensors_is_refused(given):
    """Told that it is in time, the estimator does not believe a counter that is 22 ms late."""
    estimated, truth = watched(3, delay_s=0.022, response=given)
    phases = [estimated.of(j) for j in range(len(truth))]
    assert {phase.status for phase in phases} == {Status.NOT_IDENTIFIABLE}
    assert {phase.why for phase in phases} == {"fit"}
    assert (
        fit_row(estimated).failed == "response" and "probe calibrate" in fit_row(estimated).remedy
    )
    assert fit_warning(estimated, "gpu0").startswith("gpu0: its readings do not fit")


@pytest.mark.parametrize("step", ["60 ms, even", "50 ms, periodic"])
def test_even_steps_leave_phases_weak_until_the_meter_is_calibrated(step):
    """Where no length varies, a delay turns the step's profile: nothing else tells it."""
    estimated, truth = watched(1, step=step, delay_s=0.02, period_s=0.0971)
    statuses = {estimated.of(j).status for j in range(len(truth))}
    assert Status.RESOLVED not in statuses and Status.WEAK in statuses
    assert {estimated.of(j).why for j in range(len(truth))} >= {"response"}
    assert "`probe calibrate` tells" in note(estimated)
    true_response = Response.of(0.02, 0.0)
    calibrated, truth = watched(1, response=true_response, step=step, delay_s=0.02, period_s=0.0971)
    phases = [calibrated.of(j) for j in range(len(truth))]
    held = [
        phase.low_j <= true <= phase.high_j
        for phase, true in zip(phases, truth, strict=True)
        if phase.status is Status.RESOLVED
    ]
    assert held and all(held)
    assert "probe calibrate" not in note(calibrated)


def test_a_far_delay_that_is_as_likely_is_told_apart_from_one_that_is_not():
    lanes = LikelyLanes([(Response.of(0.0, 0.0), Tie.FREE, np.ones(3))])
    near, far = Response.of(0.01, 0.0), Response.of(0.02, 0.0)
    assert far_from_all([(0.0, near), (4.0, far)], lanes)
    assert not far_from_all([(0.0, near), (6.0, far)], lanes)
    assert not far_from_all([(0.0, near)], lanes)
    assert not far_from_all([], lanes)


def test_a_part_time_window_is_measured():
    estimated, _ = watched(5, part=0.22, period_s=0.1012)
    response = estimated.solution.response
    assert response.kind is Kind.PART_TIME
    assert response.part_s == pytest.approx(0.22 * 0.1012, abs=0.001)
    assert "part-time: it integrates 22 ms of every" in note(estimated)


def test_missed_updates_of_a_part_time_sensor_are_several_windows():
    estimated, truth = watched(6, part=0.25, missed=0.1)
    energy = np.array([estimated.of(j).energy_j for j in range(len(truth))])
    assert 50 * np.abs(energy - truth).sum() / truth.sum() < 1.2


def test_wander_is_measured_however_the_instants_are_cut():
    rng = np.random.default_rng(0)
    at = 0.1 * np.arange(2000)
    smooth = np.interp(at, np.arange(0, 210, 5.0), 0.004 * rng.standard_normal(42))
    steady, wandering, cut = Wander(), Wander(), Wander()
    steady.feed(at + 0.0002 * rng.standard_normal(len(at)))
    wandering.feed(at + smooth)
    for part in np.array_split(at + smooth, 37):
        cut.feed(part)
    assert steady.sd_s < 0.0003
    assert 0.0015 < wandering.sd_s < 0.005
    assert cut.sd_s == pytest.approx(wandering.sd_s, rel=1e-9)
    assert Wander().sd_s == 0.0


def test_a_response_is_described_by_mean_and_variance():
    slow = Response.of(0.02, 0.01)
    assert (slow.delay_s, slow.tau_s, slow.window_s) == pytest.approx((0.02, 0.01, 0.0))
    average = Response.averaging(0.005, 0.024)
    assert (average.delay_s, average.tau_s) == pytest.approx((0.005, 0.0))
    assert average.window_s == pytest.approx(0.024)
    part = Response.part_time(0.025, 0.001)
    assert replace(part) == part and part.window_s == 0.025
    assert part.moved(0.002, -1.0).variance_s2 == 0.0
