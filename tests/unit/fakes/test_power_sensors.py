"""What simulated energy counters show, against integrals that are summed sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.power_sensors import Counter, scheduled_reads
from tests.fakes.power_traces import QUIET, STEPS, Trace, World, make_trace

SAMPLE_S = 1e-5
BEFORE_S = 0.5  # how long the oracle lets power stand before the trace begins


def trace_of(seconds: float = 1.5, kind: str = "60 ms", **world: object) -> Trace:
    return make_trace(STEPS[kind], seconds, np.random.default_rng(4), World(**world))  # type: ignore[arg-type]


class SummedEnergy:
    """Energy of a trace through a response, stepped forward in samples of 10 µs."""

    def __init__(self, trace: Trace, counter: Counter) -> None:
        middle = np.arange(-BEFORE_S, trace.edges_s[-1], SAMPLE_S) + SAMPLE_S / 2
        place = np.clip(np.searchsorted(trace.edges_s, middle, "right") - 1, 0, None)
        watts = trace.watts[place]
        seen = np.zeros(len(watts))
        for weight, tau in trace.lag:
            if tau:
                level = watts[0]
                for i, power in enumerate(watts):
                    level += (power - level) * SAMPLE_S / tau
                    seen[i] += weight * level
            else:
                seen += weight * watts
        if counter.average_s:
            width = round(counter.average_s / SAMPLE_S)
            padded = np.concatenate([np.full(width - 1, seen[0]), seen])
            seen = np.convolve(padded, np.full(width, 1 / width), "valid")
        self.time_s = middle + SAMPLE_S / 2 + counter.delay_s
        self.joules = np.cumsum(seen) * SAMPLE_S

    def at(self, at_s: np.ndarray) -> np.ndarray:
        return np.interp(at_s, self.time_s, self.joules)


@pytest.mark.parametrize(
    ("lag", "response"),
    [
        (((1.0, 0.0),), {}),
        (((1.0, 0.008),), {}),
        (((1.0, 0.045),), {}),
        (((0.7, 0.004), (0.3, 0.02)), {}),
        (((1.0, 0.0),), {"delay_s": 0.022}),
        (((1.0, 0.008),), {"delay_s": 0.01}),
        (((1.0, 0.0),), {"average_s": 0.025}),
        (((0.5, 0.0), (0.5, 0.03)), {"average_s": 0.01, "delay_s": 0.005}),
    ],
)
def test_a_counter_shows_the_integral_of_what_its_response_lets_through(
    lag: tuple[tuple[float, float], ...], response: dict[str, float]
) -> None:
    trace, counter = trace_of(lag=lag), Counter(0.02, jitter_s=0.002, **response)
    at, value = counter.updates(trace, np.random.default_rng(1))
    summed = SummedEnergy(trace, counter).at(at)
    assert len(at) > 60
    assert value - value[0] == pytest.approx(summed - summed[0], abs=0.02)


@pytest.mark.parametrize("part", [0.25, 0.5])
def test_a_part_of_each_period_stands_for_all_of_it(part: float) -> None:
    trace = trace_of(lag=((1.0, 0.003),))
    counter = Counter(0.1, skew=0.0, jitter_s=0.002, part=part, delay_s=0.004)
    at, value = counter.updates(trace, np.random.default_rng(1))
    summed = SummedEnergy(trace, counter)
    watts = (summed.at(at) - summed.at(at - part * 0.1)) / (part * 0.1)
    assert np.diff(value) == pytest.approx((watts * np.diff(at, prepend=0.0))[1:], abs=0.05)
    whole = summed.at(at)
    assert np.abs(np.diff(value) - np.diff(whole)).max() > 1.0  # it is not the energy


def test_all_of_the_period_is_the_plain_counter() -> None:
    trace = trace_of()
    values = [
        Counter(part=part).updates(trace, np.random.default_rng(1)) for part in (1, 1 - 1e-12)
    ]
    assert np.diff(values[0][1]) == pytest.approx(np.diff(values[1][1]), abs=0.3)


def test_gain_and_offset_are_of_power() -> None:
    trace = trace_of()
    (at, plain), (same, wrong) = (
        Counter(gain=gain, offset_w=offset).updates(trace, np.random.default_rng(1))
        for gain, offset in ((1.0, 0.0), (1.047, -21.6))
    )
    assert np.array_equal(at, same)
    assert np.diff(wrong) == pytest.approx(1.047 * np.diff(plain) - 21.6 * np.diff(at), abs=0.003)


def test_a_period_may_be_longer_than_its_name_by_a_fixed_share() -> None:
    trace = trace_of(20.0)
    at, _ = Counter(period_skew=0.012, skew=0.0, jitter_s=0.0).updates(
        trace, np.random.default_rng(1)
    )
    assert np.diff(at) == pytest.approx(0.1012)


def test_a_lattice_that_wanders_is_still_followed() -> None:
    trace = trace_of(60.0)
    rng = np.random.default_rng(2)
    counter = Counter(skew=0.0, jitter_s=0.0, wander_s=0.004)
    at, value = counter.updates(trace, rng)
    line = np.polynomial.Polynomial.fit(np.arange(len(at)), at, 1)(np.arange(len(at)))
    wander = at - line
    assert 0.002 < wander.std() < 0.005
    assert np.abs(np.diff(at) - 0.1).max() < 0.001  # smooth: no update jumps
    swings = np.count_nonzero(np.diff(np.sign(wander)))
    assert 2 <= swings <= 20  # some 10 s long
    reads = scheduled_reads(at, value, float(trace.edges_s[-1]), rng)
    changed = np.flatnonzero(np.diff(reads.joules)) + 1
    bracket = reads.time_s[changed] - reads.time_s[changed - 1]
    assert np.count_nonzero(bracket < 0.005) > 60  # updates are still caught between close reads
    assert reads.per_second < 60


def test_what_a_counter_showed_before_it_shows_now() -> None:
    """The figures of others rest on these streams of random numbers."""
    rng = np.random.default_rng(7)
    trace = make_trace(STEPS["60 ms"], 20.0, rng)
    at, value = Counter().updates(trace, rng)
    reads = scheduled_reads(at, value, float(trace.edges_s[-1]), rng)
    assert (len(trace.watts), len(at), len(reads.time_s)) == (5047, 198, 420)
    last = trace.edges_s[-1], at[-1], value[-1], reads.time_s[-1]
    assert last == pytest.approx((19.9941038, 19.8515389, 8343.193, 19.9003491))


def test_truth_is_the_energy_within_recorded_borders() -> None:
    plain = trace_of(10.0, edge_noise_s=0.0)
    for world in ({"slack_s": 0.0005}, {"marks_long_s": 0.0006}):
        moved = trace_of(10.0, edge_noise_s=0.0, **world)
        assert np.array_equal(moved.span_s, plain.span_s) and np.array_equal(moved.code, plain.code)
        time_s = np.arange(1.0, 9.0, 1e-5) + 5e-6
        watts = moved.watts[np.searchsorted(moved.edges_s, time_s, "right") - 1]
        phase = moved.code[np.searchsorted(moved.span_s, time_s, "right") - 1]
        summed = np.bincount(phase, watts * 1e-5)
        assert moved.truth(1.0, 9.0) == pytest.approx(summed, rel=1e-3)
        assert np.abs(moved.truth(1.0, 9.0) / plain.truth(1.0, 9.0) - 1).max() > 0.01


def test_slack_moves_each_kind_of_border_one_way() -> None:
    plain, moved = trace_of(5.0), trace_of(5.0, slack_s=0.0003)
    at = np.searchsorted(plain.edges_s, plain.border_s[1:-1])
    shift = (moved.edges_s - plain.edges_s)[at]
    for code in range(5):
        of_kind = shift[plain.code[1:] == code]
        assert np.ptp(of_kind) < 1e-9 and abs(of_kind[0]) == pytest.approx(0.0003)


def test_loads_are_shorter_than_their_marks() -> None:
    plain = trace_of(5.0, edge_noise_s=0.0)
    moved = trace_of(5.0, edge_noise_s=0.0, marks_long_s=0.0004)
    begin, end = moved.span_s[:-1], moved.span_s[1:]
    middle = {
        "just inside": begin + 0.0001,
        "just before the end": end - 0.0001,
        "further inside": begin + 0.0003,
    }
    loads = moved.code > 0
    for what, at in middle.items():
        before = plain.watts[np.searchsorted(plain.edges_s, at, "right") - 1]
        now = moved.watts[np.searchsorted(moved.edges_s, at, "right") - 1]
        if what == "further inside":
            assert np.array_equal(now, before)
        else:
            assert (now[loads][1:-1] < 0.75 * before[loads][1:-1]).all()


def test_a_long_wait_draws_less_and_less() -> None:
    trace = trace_of(
        40.0,
        "60 ms, checkpoints",
        idle_decay=0.2,
        idle_s=2.0,
        **dict.fromkeys(("instance_cv", "drift_cv", "warm_up"), 0.0),
    )
    checkpoint, data = trace.names.index("checkpoint"), trace.names.index("data")
    waits = np.flatnonzero(trace.code == checkpoint)
    assert 2 <= len(waits) <= 4
    begin, end = trace.span_s[waits[0]], trace.span_s[waits[0] + 1]
    assert end - begin > 1.5 and trace.code[waits[0] + 1] == data
    for seconds in (0.2, 1.0, 1.5):
        place = np.searchsorted(trace.edges_s, begin + seconds) - 1
        expected = 140 * (1 - 0.2 * (1 - np.exp(-seconds / 2.0)))
        assert trace.watts[place] == pytest.approx(expected, rel=0.005)
    after = trace.watts[np.searchsorted(trace.edges_s, end + 0.0005) - 1]
    assert after == pytest.approx(120 * (1 - 0.2 * (1 - np.exp(-(end - begin) / 2.0))), rel=0.005)


def test_steps_of_even_length_vary_by_a_thousandth() -> None:
    trace = make_trace(STEPS["60 ms, even"], 20.0, np.random.default_rng(0), QUIET)
    steps = np.diff(trace.border_s[:-1][trace.code == 0])
    assert steps.std() / steps.mean() < 0.001 and steps.mean() == pytest.approx(0.0618, rel=0.001)
    forward = trace.watts[1:7]
    assert (np.diff(forward) > 0).all()  # inner segments differ: only they tell a delay


def test_a_run_with_rare_parts_is_as_long_as_asked_for() -> None:
    for seed in range(20):
        trace = make_trace(STEPS["60 ms, checkpoints"], 30.0, np.random.default_rng(seed))
        assert 27.0 < trace.edges_s[-1] <= 30.0
