"""Updates whose dates the energy around them contradicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from probe.attribution.meter.misdated import MisdatedUpdates
from probe.attribution.meter.update_times import CounterUpdateFinder
from tests.fakes.attributed_traces import attributed
from tests.fakes.power_sensors import Counter
from tests.fakes.power_traces import STEPS, make_trace

ALL = np.ones(200, np.bool_)


def residuals(seed=0, number=200):
    return np.random.default_rng(seed).normal(0, 1.0, number)


def test_energy_that_goes_to_the_next_interval_shows_the_update_between():
    residual = residuals()
    residual[[50, 120]] += [30.0, -25.0]
    residual[[51, 121]] -= [30.0, -25.0]
    assert np.flatnonzero(MisdatedUpdates().find(residual, ALL)).tolist() == [51, 121]


def test_two_updates_in_a_row_are_found():
    residual = residuals()
    residual[50] += 30.0
    residual[52] -= 30.0
    assert np.flatnonzero(MisdatedUpdates().find(residual, ALL)).tolist() == [51, 52]


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_steps_are_no_wrong_dates(seed):
    residual = residuals(seed)
    residual[70:73] += 40.0  # a phase that draws more than was known of it
    residual[150] -= 500.0
    assert not MisdatedUpdates().find(residual, ALL).any()


def test_what_the_model_does_not_hold_for_is_not_judged():
    residual, judged = residuals(), ALL.copy()
    residual[50], residual[51] = 30.0, -30.0
    judged[51] = False
    assert not MisdatedUpdates().find(residual, judged).any()
    assert not MisdatedUpdates().find(residual, np.zeros(200, np.bool_)).any()


def test_a_short_batch_is_judged_by_those_before_it():
    residual = residuals()
    few = residual[:12].copy()
    few[5], few[6] = 30.0, -30.0
    assert not MisdatedUpdates().find(few, ALL[:12]).any()
    finder = MisdatedUpdates()
    finder.find(residual, ALL)
    assert np.flatnonzero(finder.find(few, ALL[:12])).tolist() == [6]


class ShiftedDates(CounterUpdateFinder):
    """Dates one update in 40 wrongly, by 12 ms."""

    def __init__(self):
        super().__init__()
        self._number = 0

    def _take(self):
        updates = super()._take()
        number = self._number + np.arange(len(updates))
        self._number += len(updates)
        return replace(updates, time_s=updates.time_s + np.where(number % 40 == 20, 0.012, 0.0))


def misattributed(finder):
    """Half the summed error over the total, in %, of a minute of steps and a counter of 20 ms."""
    rng = np.random.default_rng(7)
    trace = make_trace(STEPS["60 ms"], 60.0, rng)
    estimated, truth = attributed(trace, Counter(0.02), rng, finder)
    energy = np.array([estimated.of(j).energy_j for j in range(len(truth))])
    return 50 * float(np.abs(energy - truth).sum() / truth.sum())


def test_wrong_dates_hardly_move_joules():
    """9 % are misattributed where they are taken as they come."""
    right, wrong = misattributed(CounterUpdateFinder()), misattributed(ShiftedDates())
    assert right < 0.7 and wrong < 2.0
