"""Phases whose power is not the same all the time: other batches, long inputs, slow first steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from probe.analysis.sensor_response import fit_warning, note
from probe.model import Status
from tests.fakes.attributed_traces import attributed
from tests.fakes.power_sensors import Counter, FaultyCounter
from tests.fakes.power_traces import STEPS, Trace, World, make_trace
from tests.fakes.selection import one_in, rows_one_in

SEEDS = 6


def held(make: Callable[[np.random.Generator], Trace], period_s: float) -> tuple[int, int]:
    """Of some runs: (intervals of resolved phases that hold the truth, resolved phases)."""
    hold = resolved = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        trace = make(rng)
        estimated, truth = attributed(trace, Counter(period_s), rng)
        for code, joules in enumerate(truth.tolist()):
            phase = estimated.of(code)
            if phase.status is Status.RESOLVED:
                resolved += 1
                hold += phase.low_j <= joules <= phase.high_j
    return hold, resolved


def with_slow_first_step(rng: np.random.Generator) -> Trace:
    """The first forward and backward take 1.5 s at a third of the usual power."""
    trace = make_trace(STEPS["60 ms"], 45.0, rng)
    border_s = trace.border_s.copy()
    first, last = border_s[1], border_s[3]
    longer = 1.5 - (last - first)
    places = np.searchsorted(trace.edges_s, [first, last])
    slow = np.array([first, first + 1.0, first + 1.5])
    edges_s = np.concatenate(
        [trace.edges_s[: places[0]], slow, trace.edges_s[places[1] + 1 :] + longer]
    )
    kept = np.concatenate([trace.watts[: places[0]], [140.0, 150.0], trace.watts[places[1] :]])
    moved = [np.concatenate([b[:2], slow[1:], b[4:] + longer]) for b in (border_s, trace.span_s)]
    return replace(trace, edges_s=edges_s, watts=kept, border_s=moved[0], span_s=moved[1])


WORLDS: dict[str, Callable[[np.random.Generator], Trace]] = {
    "a batch that doubles": lambda rng: make_trace(
        STEPS["60 ms"], 60.0, rng, World(change=(27.0, 1.9, 1.15))
    ),
    "power that grows with length": lambda rng: make_trace(
        STEPS["60 ms"], 60.0, rng, World(length_cv=0.3, length_power=0.1)
    ),
    "a slow first step": with_slow_first_step,
}


@pytest.mark.parametrize(
    ("world", "period_s"), rows_one_in(2, itertools.product(WORLDS, [0.1, 0.02]))
)
def test_intervals_hold_though_powers_change(world: str, period_s: float) -> None:
    hold, resolved = held(WORLDS[world], period_s)
    assert resolved >= 1.5 * SEEDS and hold >= 0.88 * resolved, (hold, resolved)


def test_when_powers_changed_is_known_and_else_the_run_is_one() -> None:
    for change in (None, (27.0, 1.9, 1.15)):
        rng = np.random.default_rng(1)
        trace = make_trace(STEPS["60 ms"], 60.0, rng, World(change=change))
        estimated, _ = attributed(trace, Counter(), rng)
        if change is None:
            assert estimated.changed_s == []
        else:
            (at_s,) = estimated.changed_s
            assert abs(at_s - change[0]) < 2.5


@pytest.mark.parametrize("later_s", [0.02, pytest.param(-0.02, marks=pytest.mark.full)])
def test_no_phase_is_resolved_where_the_meters_delay_changes(later_s: float) -> None:
    refused = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        trace = make_trace(STEPS["60 ms"], 60.0, rng)
        counter = Counter(delay_s=0.005 + max(0.0, -later_s), later=(31.0, later_s))
        estimated, _ = attributed(trace, counter, rng)
        refused += estimated.delay_changed
        if estimated.delay_changed:
            assert all(
                estimated.of(code).status is Status.NOT_IDENTIFIABLE for code in estimated.codes
            )
            (at_s,) = estimated.changed_s
            assert abs(at_s - 31.0) < 4.0
            assert "the meter is later, or earlier" in note(estimated)
            assert "No response holds" in (fit_warning(estimated, "gpu0") or "")
    assert refused >= SEEDS - 1


@pytest.mark.parametrize(
    "change", one_in(3, [(27.0, 1.9, 1.15), (30.0, 1.0, 0.7), (40.0, 1.3, 1.3)])
)
def test_a_change_of_power_is_no_change_of_the_meter(change: tuple[float, float, float]) -> None:
    changed = meter = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        trace = make_trace(STEPS["60 ms"], 60.0, rng, World(change=change))
        estimated, _ = attributed(trace, Counter(), rng)
        changed += bool(estimated.changed_s)
        meter += estimated.delay_changed
    assert changed >= SEEDS - 1 and meter == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_meter_that_is_irregular_for_a_while_is_no_change_of_power(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = make_trace(STEPS["60 ms"], 60.0, rng)
    sensor = FaultyCounter(0.1, late=0.3, doubled=0.3, until_s=20.0)
    estimated, _ = attributed(trace, sensor, rng)
    assert estimated.changed_s == []
