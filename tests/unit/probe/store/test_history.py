"""Samples over any span: the same from rollups, segments and the hot tail as from all at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from probe.store import layout
from probe.store.history import History
from probe.store.reader import RunReader
from probe.store.rollup import MERGED, roll_up
from probe.store.segments import SAMPLES, SegmentWriter, seal_segment
from probe.store.steps import StepTimes
from probe.store.tail import Tail
from tests.fakes.stored_run import NS, gauge_source, stored_run, write_steps

SOURCES = 3


def samples(rng: np.random.Generator, count: int = 4000):
    time_ns = np.sort(rng.integers(0, 40 * NS, count))
    return rng.integers(0, SOURCES, count), time_ns, rng.normal(size=count)


@pytest.fixture(params=["all sealed", "end hot"])
def written(request: pytest.FixtureRequest, tmp_path: Path):
    rng = np.random.default_rng(1)
    source, time_ns, value = samples(rng)
    sources = [
        (gauge_source(i, "temperature", "Cel"), (time_ns[source == i], value[source == i]))
        for i in range(SOURCES)
    ]
    run = stored_run(
        tmp_path, sources, 40.0, begin_ns=0, parts=5, hot_end=request.param == "end hot"
    )
    history = History(RunReader(run).nodes()[0])
    history.refresh()
    return history, source, time_ns, value


def test_raw_samples_of_a_span_are_those_that_were_written(written) -> None:
    history, source, time_ns, value = written
    low, high = 7 * NS, 31 * NS
    tables = history.raw([0, 2], low, high)
    assert set(tables) == {0, 2}
    for number, raw in tables.items():
        inside = (source == number) & (time_ns >= low) & (time_ns <= high)
        assert np.array_equal(raw.time_ns, time_ns[inside])
        assert np.array_equal(raw.value, value[inside])


@pytest.mark.parametrize("label", ["1s", "10s", "60s"])
def test_buckets_are_those_of_all_samples(label: str, written) -> None:
    history, source, time_ns, value = written
    tables = history.rolled(range(SOURCES), 0, 40 * NS, label)
    width = int(label[:-1]) * NS
    for number, rolled in tables.items():
        of_source = source == number
        assert list(rolled.begin_ns) == sorted(
            {int(t // width * width) for t in time_ns[of_source]}
        )
        for i, begin in enumerate(rolled.begin_ns):
            inside = of_source & (time_ns // width == begin // width)
            assert rolled.mean[i] == pytest.approx(value[inside].mean())
            assert rolled.minimum[i] == value[inside].min()
            assert rolled.maximum[i] == value[inside].max()
            assert rolled.last[i] == value[inside][-1]
            assert rolled.last_ns[i] == time_ns[inside][-1]


def test_what_is_appended_is_seen_once_and_sealing_changes_nothing(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "node", "samples-1", SAMPLES)
    (tmp_path / "node").mkdir()

    def write(begin: int, count: int) -> None:
        at = np.arange(begin, begin + count, dtype=np.int64) * NS
        writer.write(
            {
                "source": np.zeros(count, np.uint16),
                "time_ns": at,
                "value": at.astype(np.float64),
                "span_ns": np.zeros(count, np.int32),
            }
        )

    history = History(tmp_path / "node")
    write(0, 10)
    assert history.refresh() == 10 and history.newest_ns() == 9 * NS
    assert history.refresh() == 0
    write(10, 5)
    assert history.refresh() == 5
    before = history.raw([0], 0, 100 * NS)[0].time_ns
    sealed = seal_segment(*writer.close())
    assert sealed is not None
    roll_up(sealed, tmp_path / "node")
    assert history.refresh() == 0 and history.newest_ns() is None
    assert np.array_equal(history.raw([0], 0, 100 * NS)[0].time_ns, before)
    assert len(history.rolled([0], 0, 100 * NS, "1s")[0].mean) == 15


def test_a_torn_batch_is_read_once_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    writer = SegmentWriter(tmp_path / "node", "samples-1", SAMPLES)
    columns = {
        "source": np.zeros(500, np.uint16),
        "time_ns": np.arange(500),
        "value": np.random.default_rng(0).normal(size=500),
        "span_ns": np.zeros(500, np.int32),
    }
    writer.write(columns)
    path = next((tmp_path / "node" / "hot").iterdir())
    first = path.read_bytes()
    writer.write(columns)
    both = path.read_bytes()
    tail = Tail(path)
    path.write_bytes(both[: len(first) + 60])
    assert [batch.num_rows for batch in tail.new()] == [500]
    assert tail.new() == []
    path.write_bytes(both)
    assert [batch.num_rows for batch in tail.new()] == [500]
    path.unlink()
    assert tail.new() == []


def test_the_widest_rollups_are_joined_and_say_the_same(tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.mkdir()
    writer = SegmentWriter(node, "samples-1", SAMPLES)
    rng = np.random.default_rng(2)
    for part in range(60):
        at = part * 300 * NS + np.sort(rng.integers(0, 300 * NS, 50))
        writer.write(
            {
                "source": np.zeros(50, np.uint16),
                "time_ns": at,
                "value": at / NS,
                "span_ns": np.zeros(50, np.int32),
            }
        )
        sealed = seal_segment(*writer.close())
        assert sealed is not None
        roll_up(sealed, node)
    wide = sorted(path.name for path in (node / "rollup").glob("60s-*.parquet"))
    assert len(wide) < 20 and any(MERGED in name for name in wide)
    history = History(node)
    history.refresh()
    whole = history.rolled([0], 0, 10**15, "60s")[0]
    fine = history.rolled([0], 0, 10**15, "1s")[0]
    assert np.all(np.diff(whole.begin_ns) > 0)
    assert (
        sum(pq.read_table(node / "rollup" / name)["count"].to_numpy().sum() for name in wide)
        == 60 * 50
    )
    assert whole.last[-1] == fine.last[-1] and whole.minimum.min() == fine.minimum.min()
    part = history.rolled([0], 3000 * NS, 6000 * NS, "60s")[0]
    assert set(part.begin_ns) <= set(whole.begin_ns) and part.begin_ns[0] >= 2940 * NS


def test_a_segment_without_its_rollup_is_read_itself(written, tmp_path: Path) -> None:
    history, *_ = written
    before = {label: history.rolled([0, 1], 0, 40 * NS, label) for label in ("1s", "60s")}
    stem = sorted(path.stem for path in tmp_path.rglob("cold/samples-*.parquet"))[1]
    for path in tmp_path.rglob(f"rollup/*-{stem}.parquet"):
        path.unlink()
    for label, rolled in before.items():
        after = history.rolled([0, 1], 0, 40 * NS, label)
        for source, table in rolled.items():
            assert np.array_equal(after[source].begin_ns, table.begin_ns)
            assert after[source].mean == pytest.approx(table.mean)
            assert np.array_equal(after[source].last, table.last)


def test_a_damaged_file_is_as_if_it_held_nothing(written, tmp_path: Path) -> None:
    history, *_ = written
    for path in [*tmp_path.rglob("*.parquet")][:3]:
        path.write_bytes(b"PAR1 no more")
    assert isinstance(history.raw([0], 0, 40 * NS), dict)
    assert isinstance(history.rolled([0], 0, 40 * NS, "1s"), dict)


def test_steps_and_edges_of_a_part(tmp_path: Path) -> None:
    run = stored_run(
        tmp_path,
        [(gauge_source(0, "temperature", "Cel"), (np.array([1000 * NS]), np.array([1.0])))],
        20.0,
    )
    write_steps(run, 1000 * NS, 100)
    times = StepTimes(lambda: [(layout.rank_dir(run, 0), 0)])
    closed = times.read().time_ns
    assert len(closed) == 100 and np.allclose(np.diff(closed), 0.1 * NS)
    assert np.array_equal(times.read().time_ns, closed)
    reader = RunReader(run)
    low, high = int(closed[40]), int(closed[60])
    ((name, rows),) = reader.rings_between(0, low, high)
    ((_, every),) = reader.rings(0)
    inside = every[(every["time_ns"] >= low) & (every["time_ns"] <= high)]
    assert name == "main0" and np.array_equal(rows, inside)
