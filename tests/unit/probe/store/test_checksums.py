"""A flipped bit, and a file in another one's place, never become another value without a word."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from probe.errors import StoreError
from probe.model import Gap
from probe.store import files
from probe.store.node_files import gap_line, read_gaps
from probe.store.runs import create_run
from probe.store.segment_reader import read_segment
from probe.store.segments import SAMPLES, SegmentWriter, seal_segment
from probe.store.tail import Tail

OBJECT = {"steps": 12, "power": [1.5, 2.25e-7, None], "name": "ä", "5": {"k": (1, 2)}}
ROUNDS = 150


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


@pytest.mark.parametrize("value", [OBJECT, {}, [{"id": "a"}, {"id": "b"}], []])
@pytest.mark.parametrize("compact", [False, True])
def test_json_reads_as_it_was_written(value: object, compact: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, value, compact=compact, checked=True)
    assert "crc32" in path.read_text()
    assert files.read_json(path) == json.loads(json.dumps(value))
    files.write_json(path, value)  # as versions before did
    assert files.read_json(path) == json.loads(json.dumps(value))


@pytest.mark.parametrize("compact", [False, True])
def test_no_flipped_bit_changes_json(compact: bool, tmp_path: Path) -> None:
    chance, path = random.Random(1), tmp_path / "a.json"
    expected = json.loads(json.dumps(OBJECT))
    caught = 0
    for _ in range(ROUNDS):
        files.write_json(path, OBJECT, compact=compact, checked=True)
        flip(path, chance)
        damaged: list[Path] = []
        value = files.read_json(path, damaged=damaged.append)
        kept = {name: value[name] for name in expected} if value is not None else None
        assert kept == expected or damaged == [path]
        caught += bool(damaged)
    assert caught > ROUNDS / 2


def test_a_compact_object_is_checked_without_writing_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live page of eight GPUs is read twice a second."""
    path, written = tmp_path / "a.json", json.loads(json.dumps(OBJECT))
    files.write_json(path, OBJECT, compact=True, checked=True)
    longest: list[int] = []
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value: longest.append(len(value)) or dumps(value))
    assert files.read_json(path) == written
    assert longest == [1]  # the checksum alone
    more = path.read_bytes().replace(b'"}\n', b'", "more": 1}\n')  # behind the checksum
    path.write_bytes(more)
    assert files.read_json(path) is None


def test_json_of_another_name_is_damaged(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", OBJECT, checked=True)
    shutil.copy(tmp_path / "a.json", tmp_path / "b.json")
    assert files.read_json(tmp_path / "b.json") is None


def test_arrays_of_another_place_are_damaged(tmp_path: Path) -> None:
    (tmp_path / "node-a").mkdir()
    path = tmp_path / "node-a" / "statistics-x.npz"
    files.write_arrays(path, {"sums": np.arange(5)})
    read = files.read_arrays(path)
    assert read is not None and list(read) == ["sums"]
    for other in (tmp_path / "node-a" / "statistics-y.npz", tmp_path / "statistics-x.npz"):
        shutil.copy(path, other)
        assert files.read_arrays(other) is None
    np.savez(path, sums=np.arange(5))  # as versions before did
    assert files.read_arrays(path) is not None


def test_a_run_file_that_was_changed_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    run = create_run(tmp_path, "20260101-000000-aaa", shared=False, fields={"name": "mine"})
    path = run / "run.json"
    path.write_text(path.read_text().replace("mine", "nine"))
    with pytest.raises(StoreError, match="its checksum does not match") as error:
        files.read_run_file(run)
    assert "\n" not in str(error.value) and '"crc32"' in str(error.value)
    stored = json.loads(path.read_text())
    del stored["crc32"]  # what the line says
    path.write_text(json.dumps(stored))
    assert files.read_run_file(run)["name"] == "nine"


def test_a_changed_gap_is_left_out_and_said(tmp_path: Path) -> None:
    gaps = [Gap("gpu0", 10, 20 + number, "slow", 1) for number in range(3)]
    path = tmp_path / "gaps.jsonl"
    path.write_bytes(b"".join(map(gap_line, gaps)))
    damaged: list[Path] = []
    assert read_gaps(tmp_path, damaged.append) == gaps and not damaged
    path.write_bytes(path.read_bytes().replace(b'"end_ns": 21', b'"end_ns": 29'))
    assert read_gaps(tmp_path, damaged.append) == [gaps[0], gaps[2]] and damaged == [path]


def hot_segment(folder: Path) -> Path:
    writer = SegmentWriter(folder, "samples-1", SAMPLES)
    for begin in range(0, 500, 100):
        time_ns = np.arange(begin, begin + 100, dtype=np.int64)
        writer.write(
            {
                "source": np.zeros(100, np.uint16),
                "time_ns": time_ns,
                "value": np.sqrt(time_ns),
                "span_ns": np.ones(100, np.int32),
            }
        )
    (path,) = writer.close()
    return path


def test_a_flipped_bit_in_a_hot_segment_costs_its_own_batch_and_is_said(tmp_path: Path) -> None:
    chance = random.Random(2)
    path = hot_segment(tmp_path)
    sound = path.read_bytes()
    silent = 0
    for _ in range(ROUNDS):
        path.write_bytes(sound)
        flip(path, chance)
        damaged: list[Path] = []
        batches = list(read_segment(path, damaged.append))
        rows = [row for batch in batches for row in batch.to_pylist()]
        if batches and batches[0].schema.equals(SAMPLES):
            assert all(row["value"] == np.sqrt(row["time_ns"]) for row in rows)
            assert len(rows) in (400, 500)
        silent += len(rows) < 500 and not damaged
        followed = Tail(path).new()
        assert [b.num_rows for b in followed] == [b.num_rows for b in batches]
    assert silent <= 1  # only the length of the last batch reads like a torn end


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    path = hot_segment(tmp_path)
    sound = path.read_bytes()
    for cut in range(1, 400, 7):
        path.write_bytes(sound[:-cut])
        damaged: list[Path] = []
        assert sum(b.num_rows for b in read_segment(path, damaged.append)) in (400, 500)
        assert not damaged


def test_a_damaged_hot_segment_is_not_sealed(tmp_path: Path) -> None:
    path = hot_segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(OSError, match="damaged"):
        seal_segment(path)
    assert path.exists() and not list(tmp_path.glob("cold/*"))


def test_no_flipped_bit_changes_a_sealed_segment(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = seal_segment(hot_segment(tmp_path))
    assert path is not None and pq.read_table(path).num_rows == 500  # for any other reader
    sound, caught = path.read_bytes(), 0
    for _ in range(ROUNDS):
        path.write_bytes(sound)
        flip(path, chance)
        damaged: list[Path] = []
        rows = [row for b in read_segment(path, damaged.append) for row in b.to_pylist()]
        assert damaged or [row["time_ns"] for row in rows] == list(range(500))
        assert damaged or all(row["value"] == np.sqrt(row["time_ns"]) for row in rows)
        caught += bool(damaged)
    assert caught > ROUNDS / 2
    path.write_bytes(sound)
    other = path.with_name("samples-1-000009.parquet")
    path.rename(other)
    damaged = []
    assert not list(read_segment(other, damaged.append)) and damaged == [other]
