"""Segments: readable after every write, up to a tear, and the same once sealed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probe.store.rollup import buckets, roll_up
from probe.store.segment_reader import read_segments, segment_files
from probe.store.segments import EDGES, SAMPLES, SegmentWriter, seal_segment


def rows(begin: int, count: int) -> dict[str, np.ndarray]:
    return {
        "time_ns": np.arange(begin, begin + count, dtype=np.int64),
        "payload": np.full(count, -1, np.int64),
        "sequence": np.arange(begin, begin + count, dtype=np.uint32),
        "kind": np.ones(count, np.uint16),
        "code": np.full(count, 3, np.uint16),
    }


def times(folder: Path, stem: str) -> list[int]:
    times_ns: list[int] = []
    for batch in read_segments(folder, stem):
        times_ns += batch.column("time_ns").to_pylist()
    return times_ns


def test_a_batch_is_readable_as_soon_as_it_is_written(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    writer.write(rows(0, 10))
    assert times(tmp_path, "edges-a") == list(range(10))
    writer.write(rows(10, 5))
    assert times(tmp_path, "edges-a") == list(range(15))


def test_sealing_changes_the_format_and_nothing_else(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    for i in range(20):
        writer.write(rows(i * 1000, 1000))
    before = times(tmp_path, "edges-a")
    sealed = seal_segment(*writer.close())
    assert sealed is not None
    assert sealed.suffix == ".parquet"
    assert [p.suffix for p in segment_files(tmp_path, "edges-a")] == [".parquet"]
    assert times(tmp_path, "edges-a") == before
    assert pq.ParquetFile(sealed).schema_arrow.equals(EDGES)
    writer.write(rows(20_000, 3))  # a sealed writer goes on in a new segment
    assert times(tmp_path, "edges-a") == [*before, 20_000, 20_001, 20_002]


@pytest.mark.parametrize("cut", [1, 100, 700, 3000])
def test_a_torn_tail_costs_its_own_batch_only(cut: int, tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    for i in range(10):
        writer.write(rows(i * 100, 100))
    (path,) = segment_files(tmp_path, "edges-a")
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - cut)
    kept = times(tmp_path, "edges-a")
    assert kept == list(range(len(kept)))
    assert len(kept) >= 900 if cut <= 100 else len(kept) > 0
    assert len(kept) % 100 == 0


def test_a_new_writer_never_touches_an_existing_file(tmp_path: Path) -> None:
    first = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    first.write(rows(0, 10))
    second = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    second.write(rows(10, 10))
    assert times(tmp_path, "edges-a") == list(range(20))


def test_a_crash_between_rename_and_removal_reads_each_row_once(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "edges-a-1", EDGES)
    writer.write(rows(0, 10))
    (hot,) = segment_files(tmp_path, "edges-a")
    copy = hot.read_bytes()
    seal_segment(*writer.close())
    hot.write_bytes(copy)  # as if the process died before the removal
    assert times(tmp_path, "edges-a") == list(range(10))


def test_a_directory_that_refuses_raises_and_the_writer_stays_usable(tmp_path: Path) -> None:
    folder = tmp_path / "rank"
    folder.write_text("in the way")
    writer = SegmentWriter(folder, "edges-a-1", EDGES)
    with pytest.raises(OSError):
        writer.write(rows(0, 10))
    folder.unlink()
    writer.write(rows(0, 10))
    assert times(folder, "edges-a") == list(range(10))


def test_rollup_matches_a_plain_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 5000
    source = rng.integers(0, 3, n).astype(np.uint16)
    time_ns = np.sort(rng.integers(0, 90 * 10**9, n))
    value = rng.normal(size=n)
    samples = pa.table({"source": source, "time_ns": time_ns, "value": value})
    table = buckets(samples, 10**10).to_pylist()
    assert sum(row["count"] for row in table) == n
    for row in table:
        inside = (source == row["source"]) & (time_ns // 10**10 * 10**10 == row["begin_ns"])
        assert row["count"] == inside.sum()
        assert row["minimum"] == value[inside].min()
        assert row["maximum"] == value[inside].max()
        assert row["mean"] == pytest.approx(value[inside].mean())
        assert row["last"] == value[inside][-1]
    writer = SegmentWriter(tmp_path, "samples-1", SAMPLES)
    writer.write(
        {"source": source, "time_ns": time_ns, "value": value, "span_ns": np.zeros(n, np.int32)}
    )
    sealed = seal_segment(*writer.close())
    assert sealed is not None
    roll_up(sealed, tmp_path)
    assert len(list((tmp_path / "rollup").glob("*.parquet"))) == 3
