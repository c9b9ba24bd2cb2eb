"""Each kind of meter through the estimator that the product chooses for it; a few seeded runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.energy import meters
from probe.analysis.sensor_response import note_unsolved
from probe.attribution.meter_kinds import accumulator_of, is_attributed
from probe.attribution.regression.statistics import Statistics
from probe.attribution.spans import Spans
from probe.sensors import SensorContext
from probe.sensors.node.pm_counters import PmCountersSensor
from tests.fakes.power_traces import STEPS, make_trace
from tests.fakes.sysfs_meters import CrayNode
from tests.fakes.virtual_clock import VirtualClock

UNDATED = "counter of 25 ms"


@pytest.mark.parametrize("name", [name for name in meters.METERS if name != UNDATED])
def test_what_a_meter_resolves_holds_and_beats_the_split_by_time(name):
    runs = [meters.of_run((name, seed)) for seed in (7, 8)]
    resolved = held = 0
    for run in runs:
        assert not run["worse"] and run["misattributed"] < run["by_time"] / 3
        resolved += sum(run["resolved"])
        held += sum(r and h for r, h in zip(run["resolved"], run["held"], strict=True))
        if meters.METERS[name].resolves:
            assert run["resolved"][1] and run["resolved"][2]  # forward and backward
    assert held >= resolved - 1


def test_a_counter_that_moves_about_as_often_as_it_is_read_is_not_solved():
    for seed in (7, 8):
        assert not any(meters.of_run((UNDATED, seed))["resolved"])


def test_irregular_reads_do_not_make_a_meter_wander():
    meter, rng = meters.METERS["amdsmi"], np.random.default_rng(3)
    trace = make_trace(STEPS["60 ms"], 60.0, rng)
    reads, accumulator = meter.reads(trace, rng), accumulator_of(meter.source)
    accumulator.feed_spans(Spans(trace.span_s[:-1], trace.span_s[1:], trace.code))
    accumulator.feed_reads(reads.time_s, reads.span_s, reads.joules)
    assert accumulator.finish().wander_s == 0


def test_the_note_of_a_source_says_that_it_cannot_be_dated():
    assert note_unsolved(None) == note_unsolved(Statistics()) == ""
    assert "moves about as often as it is read" in note_unsolved(Statistics(undated=True))


def test_a_counter_that_moves_at_every_read_is_as_exact_as_its_delay_is_known():
    """The age of its values is a part of the delay that is found, and counts once."""
    run = meters.of_run(("amdsmi", 7))
    assert all(run["resolved"]) and all(run["held"])


def test_a_meter_that_cannot_be_dated_is_not_regressed(tmp_path):
    node = CrayNode(tmp_path)
    context = SensorContext(
        sys_root=node.root, powercap_root=tmp_path, proc_root=tmp_path, clock=VirtualClock()
    )
    for source in PmCountersSensor(context).open():
        assert not is_attributed(source)
        with pytest.raises(ValueError, match="not attributed"):
            accumulator_of(source)
