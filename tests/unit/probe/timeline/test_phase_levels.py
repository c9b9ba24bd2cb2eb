"""Memory by phase: reads held against spans in any pieces equal a look at all of them."""

from __future__ import annotations

import numpy as np
import pytest

from probe.analysis.memory import growth, trend
from probe.ring.layout import Code
from probe.sensors.rank_process import RankProcessSensor
from probe.timeline.phase_levels import Floor, GaugeByPhase, Level, PhaseLevels, StepFloor
from probe.timeline.span_table import SpanTable

SOURCE = RankProcessSensor.sources(0)[1]
CODES = np.array([Code.DATA, Code.FORWARD, Code.BACKWARD, Code.OUTSIDE])


def spans_of(random: np.random.Generator, number: int) -> SpanTable:
    edges = 1_000 + np.concatenate([[0], np.cumsum(random.integers(5, 400, number))])
    code = random.choice(CODES, number).astype(np.int64)
    step = np.arange(number) // 4
    none = np.zeros(number, np.int64)
    no = np.zeros(number, np.bool_)
    return SpanTable(edges[:-1], edges[1:], code, step, none, no, no)


@pytest.mark.parametrize("seed", range(5))
def test_however_it_is_cut_it_equals_a_look_at_each_read(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = spans_of(random, 300)
    time_ns = np.sort(random.integers(0, table.end_ns[-1] + 2_000, 500))
    level = random.uniform(1e6, 1e9, 500)
    gauge = GaugeByPhase()
    read = span = 0
    while read < 500 or span < 300:
        more_reads, more_spans = random.integers(0, 60, 2).tolist()
        gauge.feed(time_ns[read : read + more_reads], level[read : read + more_reads])
        gauge.advance(table.take(slice(span, span + more_spans)))
        read, span = min(500, read + more_reads), min(300, span + more_spans)
    expected: dict[int, list[float]] = {}
    for at, value in zip(time_ns.tolist(), level.tolist(), strict=True):
        for begin, end, code in zip(table.begin_ns, table.end_ns, table.code, strict=True):
            if begin <= at < end and code != Code.OUTSIDE:
                expected.setdefault(int(code), []).append(value)
    levels = gauge.levels(0, SOURCE)
    assert {c: p.weight for c, p in levels.phases.items()} == {
        c: len(v) for c, v in expected.items()
    }
    for code, values in expected.items():
        assert levels.phases[code].mean == pytest.approx(np.mean(values))
        assert levels.phases[code].highest == max(values)
    assert PhaseLevels.of(levels.as_fields()).phases == levels.phases


def test_the_floor_is_the_lowest_of_each_block_of_steps() -> None:
    random = np.random.default_rng(3)
    step = np.repeat(np.arange(1000), 3)
    level = random.uniform(0, 1, 3000)
    floor = StepFloor()
    for cut in np.array_split(np.arange(3000), 37):
        floor.feed(step[cut], level[cut])
    seen = floor.floor()
    width = int(seen.step[1] - seen.step[0])
    assert 32 <= len(seen.step) <= 64
    for first, lowest in zip(seen.step, seen.lowest, strict=True):
        assert lowest == level[(step >= first) & (step < first + width)].min()


def levels_of(lowest: np.ndarray) -> PhaseLevels:
    floor = Floor(np.arange(len(lowest)) * 16, lowest)
    return PhaseLevels(0, "rank0", "resident", "rank0:memory", {1: Level(1, 0, 0)}, floor)


def test_a_leak_is_named_with_its_slope_and_noise_is_not() -> None:
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(300):
        noise = 500e6 + random.normal(0, 20e6, 60)
        row = growth(levels_of(noise))
        assert row is not None
        alarms += row.grows
    assert alarms <= 3  # the test's own level is one in a thousand
    for _ in range(50):
        leak = 500e6 + 16 * 1e5 * np.arange(60) + random.normal(0, 5e6, 60)
        row = growth(levels_of(leak))
        assert row is not None and row.grows
        low, high = row.bytes_per_step_interval
        assert row.bytes_per_step == pytest.approx(1e5, rel=0.2) and low < high
    filled = np.concatenate([np.linspace(1e8, 5e8, 12), np.full(48, 5e8)])  # caches, then no more
    row = growth(levels_of(filled))
    assert row is not None and not row.grows and row.bytes_per_step == 0
    assert growth(levels_of(np.full(10, 1e8))) is None  # too short to say


@pytest.mark.parametrize("ties", [False, True])
def test_a_trend_is_scipys(ties: bool) -> None:
    from scipy import stats

    rng = np.random.default_rng(7)
    for _ in range(50):
        at = np.cumsum(rng.integers(1, 9, size=int(rng.integers(12, 65)))).astype(float)
        values = at * rng.normal(0, 0.3) + rng.normal(0, 9, len(at))
        values = np.round(values / 8) if ties else values
        slope, low, high, p_rises = trend(at, values)
        theirs = stats.theilslopes(values, at, 0.95)
        assert (slope, low, high) == pytest.approx((theirs.slope, theirs[2], theirs[3]))
        method, off = ("asymptotic", 0.05) if ties else ("exact", 0.01)
        test = stats.kendalltau(at, values, alternative="greater", method=method)
        assert p_rises == pytest.approx(test.pvalue, abs=off)  # scipy's has no continuity
