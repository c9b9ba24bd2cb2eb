"""A meter that shows a part of the power far later than any response of the family does."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from probe.analysis.sensor_response import fit_row, fit_warning
from probe.attribution.estimate import Estimate
from probe.attribution.regression.blocks import Blocks
from probe.attribution.regression.lanes import Lane
from probe.attribution.regression.statistics import Statistics
from probe.attribution.response.nuisance import EXTRAS, SLOW_S, Tie, slow_columns
from probe.attribution.response.response import Response
from probe.model import Status
from tests.fakes.attributed_traces import attributed
from tests.fakes.power_sensors import Counter, SampledCounter
from tests.fakes.power_traces import STEPS, World, make_trace
from tests.fakes.selection import rows_one_in

SEEDS = 4
USUAL = ((1.0, 0.008),)
LATE = ((0.7, 0.01), (0.3, 0.3))
SECOND = ((1.0, 1.0),)


@functools.cache
def estimates(lag: tuple[tuple[float, float], ...]) -> list[Estimate]:
    """Of some runs of a minute, whose meter shows power after these (weight, lag in s)."""
    made = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        trace = make_trace(STEPS["60 ms"], 60.0, rng, World(lag=lag))
        made.append(attributed(trace, Counter(), rng)[0])
    return made


@pytest.mark.parametrize("lag", [LATE, pytest.param(SECOND, marks=pytest.mark.full)])
def test_no_phase_is_resolved_where_power_comes_late(lag: tuple[tuple[float, float], ...]) -> None:
    made = estimates(lag)
    resolved = [any(e.of(code).status is Status.RESOLVED for code in e.codes) for e in made]
    assert sum(resolved) <= 1, [e.fit for e in made]
    assert any(e.fit.comes_late for e in made)


@pytest.mark.parametrize(
    ("samples", "sample_s", "step"),
    rows_one_in(2, [(2, 0.02, "180 ms"), (2, 0.02, "12 ms"), (3, 0.005, "60 ms")]),
)
def test_no_phase_is_resolved_where_a_meter_has_several_windows(
    samples: int, sample_s: float, step: str
) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        trace = make_trace(STEPS[step], 60.0, rng)
        counter = SampledCounter(samples=samples, sample_s=sample_s)
        estimated, _ = attributed(trace, counter, rng)
        assert not [c for c in estimated.codes if estimated.of(c).status is Status.RESOLVED]


def test_a_meter_of_the_family_is_not_taken_for_a_late_one() -> None:
    made = estimates(USUAL)
    assert not any(e.fit.comes_late and e.fit.doubtful for e in made), [e.fit for e in made]


def test_the_report_says_what_is_late() -> None:
    refused = next(e for e in estimates(LATE) if e.misfit and e.fit.comes_late)
    line = fit_warning(refused, "gpu0")
    assert line is not None and line.startswith(
        "gpu0: its readings seem to show a part of the power tenths of a second late (a misfit"
    )
    weak = [e for e in estimates(LATE) if e.fits_badly and not e.misfit]
    for estimated in weak:
        row = fit_row(estimated)
        assert not row.ok and row.remedy is not None and row.remedy.startswith("no phase is res")


def test_late_columns_are_those_of_a_lag_wherever_the_run_is_cut() -> None:
    rng = np.random.default_rng(3)
    time_s = rng.uniform(0.09, 0.11, 400)
    power = rng.uniform(100, 500, 400)
    joules = power * time_s
    uncut, uncut_end_w = slow_columns(joules, time_s, None)
    first, state_w = slow_columns(joules[:150], time_s[:150], None)
    # The power that a run begins from is taken to be that of its first rows.
    rest, end_w = slow_columns(joules[150:], time_s[150:], state_w)
    assert np.abs(uncut[-50:] - rest[-50:]).max() < 1e-6 * np.abs(joules).max()
    assert uncut_end_w == pytest.approx(end_w, rel=1e-6)
    for place, lag_s in enumerate(SLOW_S):
        shown = power[:150].mean()
        for length_s, watts, column in zip(time_s, power, first[:, place], strict=False):
            shown += (watts - shown) * -np.expm1(-length_s / lag_s)
            assert column == pytest.approx((shown - watts) * length_s, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("extras", "older"), [(EXTRAS, False), (0, False), (13, True)])
def test_rows_are_added_to_statistics_of_the_same_columns_only(extras: int, older: bool) -> None:
    lane = Lane(Response.of(0.0), Tie.FREE, 0.0, np.ones(2), Blocks(2, extras), np.zeros((2, 2)))
    lane.extras = extras
    assert Statistics(lanes=[lane]).of_older_recording is older
