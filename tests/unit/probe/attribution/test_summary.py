"""What is summed up piece by piece is what all data at once come to."""

from __future__ import annotations

import numpy as np
import pytest

from probe.attribution.columns import UNATTRIBUTED
from probe.attribution.meter.energy_knots import CounterKnots, PowerKnots
from probe.attribution.meter.summary import MOST_KNOTS, POWERS_W, MeterSummarizer
from probe.attribution.time_split import split

S = 1_000_000_000
HIGHEST_W = 400.0


def run_of(seconds: float, *, period_s: float, seed: int, reset_s: float | None = None):
    """Reads of a counter, and spans of two phases with a break between steps."""
    rng = np.random.default_rng(seed)
    lengths = np.tile([0.035, 0.06, 0.005], int(seconds / 0.1))
    lengths *= rng.uniform(0.8, 1.2, len(lengths))
    watts = np.tile([120.0, 380.0, 60.0], int(seconds / 0.1))
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    joules = np.concatenate([[0.0], np.cumsum(lengths * watts)])
    # One update in four is caught closely, the others lie between two reads a period apart.
    updates = np.arange(0.013, edges[-1] + 0.5, period_s)
    caught = np.arange(len(updates)) % 4 == 0
    reads = np.sort(
        np.concatenate([updates[caught] - 1e-3, updates[caught] + 1e-3, updates + 0.4 * period_s])
    )
    place = np.searchsorted(updates, reads, "right") - 1
    held = np.where(place >= 0, np.interp(updates[np.maximum(place, 0)], edges, joules), 0.0)
    if reset_s is not None:
        held = np.where(reads > reset_s, held - held[reads > reset_s][0], held)
    keep = np.tile([True, True, False], int(seconds / 0.1))
    spans = [(np.array(part) * S).astype(np.int64)[keep] for part in (edges[:-1], edges[1:])]
    code = np.tile([1, 2, 3], int(seconds / 0.1))[keep]
    return (reads * S).astype(np.int64), held, spans[0], spans[1], code


def streamed(time_ns, value, begin, end, code, run, *, every_s, knots=None):
    summing = MeterSummarizer(knots or CounterKnots(), run[0])
    reads = spans = 0
    for until in np.arange(every_s, run[1] / S + every_s, every_s) * S:
        to = int(np.searchsorted(time_ns, until))
        summing.feed_reads(time_ns[reads:to], value[reads:to], np.zeros(to - reads, np.int64))
        reads = to
        to = int(np.searchsorted(end, until - 0.3 * S))
        summing.feed_spans(begin[spans:to], end[spans:to], code[spans:to])
        spans = to
        summing.advance()
    summing.feed_spans(begin[spans:], end[spans:], code[spans:])
    return summing.finish(run[1])


@pytest.mark.parametrize("period_s", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("every_s", [1.0, 30.0])
def test_pieces_come_to_the_whole(period_s: float, every_s: float) -> None:
    time_ns, value, begin, end, code = run_of(200.0, period_s=period_s, seed=1)
    run = (-S // 10, int(end[-1]) + S // 5)
    summary = streamed(time_ns, value, begin, end, code, run, every_s=every_s)
    knots = CounterKnots()
    knots.feed(time_ns, value, np.zeros(len(time_ns), np.int64))
    curve = knots.curve()
    assert curve is not None and summary.curve is not None and summary.shares is not None
    ends = np.array(run)
    total_j = float(np.diff(curve.at(ends))[0])
    assert float(np.diff(summary.curve.at(ends))[0]) == pytest.approx(total_j, rel=1e-9)
    assert summary.curve.period_s == pytest.approx(curve.period_s, rel=0.02)
    assert summary.highest_w == pytest.approx(curve.highest_power_w(), rel=0.05)
    shares = summary.shares.bounded(HIGHEST_W)
    place = int(np.searchsorted(POWERS_W, HIGHEST_W))
    theirs = split(curve, begin, end, code, run, POWERS_W[place : place + 1]).bounded(HIGHEST_W)
    assert list(shares) == list(theirs) == [1, 2, UNATTRIBUTED]
    assert sum(part.energy_j for part in shares.values()) == pytest.approx(total_j, rel=1e-9)
    for key, part in theirs.items():
        assert shares[key].time_ns == part.time_ns
        assert shares[key].energy_j == pytest.approx(part.energy_j, rel=2e-3)
        assert shares[key].low_j == pytest.approx(part.low_j, rel=0.02, abs=0.005 * total_j)
        assert shares[key].high_j == pytest.approx(part.high_j, rel=0.02)


def test_a_day_stays_small() -> None:
    hour = 3600 * S
    summing = MeterSummarizer(PowerKnots(), 0)
    for number in range(24):
        time_ns = np.arange(number * hour, (number + 1) * hour, S // 5)
        watts = 200.0 + 100.0 * np.sin(time_ns / hour)
        summing.feed_reads(time_ns, watts, np.zeros(len(time_ns), np.int64))
        begin = np.arange(number * hour, (number + 1) * hour, 10 * S)
        summing.feed_spans(begin, begin + 6 * S, np.ones(len(begin), np.int64))
        summing.advance()
        assert len(summing._waiting.time_ns) < 100
    summary = summing.finish(24 * hour)
    assert MOST_KNOTS / 4 < len(summary.curve.time_ns) <= MOST_KNOTS
    assert np.diff(summary.curve.time_ns).max() < 200 * S  # no bin of a chart goes without
    assert summary.samples == 24 * 18_000
    exact = 200.0 * 24 * 3600 + 100.0 * 3600 * (1 - np.cos(24.0))
    assert float(np.diff(summary.curve.at(np.array([0, 24 * hour])))[0]) == pytest.approx(
        exact, rel=1e-5
    )
    assert summary.shares.of[1].time_ns == 24 * 360 * 6 * S


def test_a_counter_that_starts_anew_is_told_once() -> None:
    time_ns, value, begin, end, code = run_of(100.0, period_s=0.1, seed=2, reset_s=50.0)
    run = (0, int(end[-1]))
    summary = streamed(time_ns, value, begin, end, code, run, every_s=5.0)
    assert summary.curve is not None and summary.curve.resets == 1


def test_a_phase_of_hours_gives_up_the_shares_and_no_memory() -> None:
    summing = MeterSummarizer(PowerKnots(), 0)
    for number in range(6):
        time_ns = np.arange(number * 3600 * S, (number + 1) * 3600 * S, S // 20)
        summing.feed_reads(time_ns, np.full(len(time_ns), 100.0), np.zeros(len(time_ns), np.int64))
        summing.advance()
    summary = summing.finish(6 * 3600 * S)
    assert summary.shares is None
    assert float(np.diff(summary.curve.at(np.array([0, 6 * 3600 * S])))[0]) == pytest.approx(2.16e6)


@pytest.mark.parametrize("silence_s", [0.7, 5.0, 300.0])
def test_energy_of_a_silence_is_spread_over_all_of_it(silence_s: float) -> None:
    """A recorder died and another one began: the first value that it reads is a period old."""
    period_s, watts = 0.1, 200.0
    updates = np.arange(0.0, 20.0 + silence_s, period_s)
    reads = np.sort(np.concatenate([updates - 2e-3, updates + 2e-3]))[1:]
    reads = reads[(reads < 10.05) | (reads > 10.05 + silence_s)]
    values = watts * period_s * np.floor(reads / period_s + 1e-9)
    knots = CounterKnots()
    knots.feed((reads * S).astype(np.int64), values, np.zeros(len(reads), np.int64))
    curve = knots.curve()
    assert curve is not None
    at_s = np.linspace(10.0, 10.0 + silence_s, 50)
    joules = curve.at((at_s * S).astype(np.int64)) - curve.at(np.array([9 * S]))[0]
    assert joules == pytest.approx(watts * (at_s - 9.0), abs=watts * period_s)
