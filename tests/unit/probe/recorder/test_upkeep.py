"""Old segments are thinned and many become few; whatever happens meanwhile, none counts twice."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from probe.recorder.sealer import Sealer
from probe.recorder.spawn import claim
from probe.recorder.upkeep import folder as folder_upkeep
from probe.recorder.upkeep.keep import EdgeThinner, thin_ledger
from probe.recorder.upkeep.upkeep import SupersededError, Upkeep, fence_of
from probe.report.build.report import build
from probe.ring.layout import Record
from probe.store.history import History
from probe.store.reader import RunReader
from probe.store.segment_names import counted, parse
from probe.store.segment_reader import segment_files, table_of
from probe.store.segments import EDGES, LEDGER, SAMPLES, SegmentWriter, seal_segment
from probe.store.steps import StepTimes
from probe.store.thinned import thinned_until_ns
from tests.fakes.long_run import BEGIN_NS, WATTS, LongRun
from tests.fakes.stored_run import NS

HOUR_NS = 3600 * NS


def test_a_name_that_covers_others_takes_their_place() -> None:
    writer = "edges-main_136_1-1"
    names = [f"{writer}-{n:06d}" for n in range(1, 15)]
    assert counted(names) == names
    whole = f"{writer}-000001-000012"
    assert counted([*names, whole]) == [whole, names[12], names[13]]
    assert counted([*names, whole, f"{whole}-thin"])[0] == f"{whole}-thin"
    assert counted([*names, f"{names[3]}-thin"])[3] == f"{names[3]}-thin"
    assert counted(["edges-main-2-000001", *names])[0] == "edges-main-2-000001"
    name = parse(f"{whole}-thin")
    assert name is not None and (name.epoch, name.first, name.last, name.thin) == (1, 1, 12, True)
    assert name.whole_stem == whole and name.table == "edges"


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> LongRun:
    """Fifty hours, 300 steps an hour, looked after as it went."""
    run = LongRun(tmp_path_factory.mktemp("long"), step_s=12.0)
    run.record(50)
    run.finish()
    return run


def test_edges_that_stay(long_run: LongRun) -> None:
    ((_, rows),) = RunReader(long_run.path).rings(0)
    hour = (rows["time_ns"].astype(np.int64) - BEGIN_NS) // HOUR_NS
    per_hour = np.bincount(hour[rows["kind"] == Record.MARK], minlength=50)
    whole = 4 * 300
    assert per_hour[0] == 4 * 200 + 1  # and the mark that ends them
    assert np.all(per_hour[1:24] == 4 * 5 + 1)
    assert np.all(per_hour[24:] == whole)  # thinned twelve hours at a time, here
    steps = rows[rows["kind"] == Record.STEP]
    assert np.all(np.diff(steps["payload"]) > 0) and steps["payload"][-1] == long_run.steps - 1


def test_what_was_logged_adds_up(long_run: LongRun) -> None:
    reader = RunReader(long_run.path)
    time_ns, values = reader.values(0)["samples"]
    assert values.sum() == 4.0 * long_run.steps
    assert np.all(np.diff(time_ns) > 0)
    assert len(reader.values(0)["loss"][0]) <= long_run.steps


def test_steps_are_known_to_ten_seconds(long_run: LongRun) -> None:
    reader = RunReader(long_run.path)
    expected = BEGIN_NS + (np.arange(long_run.steps) + 1) * 12 * NS
    assert np.array_equal(reader.steps_ns(0), expected)
    durations = StepTimes(lambda: reader.folders(0)).read()
    assert durations.every == 1 and np.array_equal(durations.time_ns, expected)


def test_samples_that_stay(long_run: LongRun) -> None:
    (series,) = RunReader(long_run.path).series()
    apart = np.diff(series.time_ns) // NS
    old = series.time_ns[:-1] < long_run.now_ns - 26 * HOUR_NS
    minute = (series.time_ns[:-1] // NS) % 3600 < 55
    assert set(apart[old & minute]) == {5} and set(apart[old & ~minute]) <= {5, 10}
    assert set(apart[series.time_ns[:-1] > long_run.now_ns - 23 * HOUR_NS]) == {5}
    assert np.allclose(series.value, WATTS * (series.time_ns - BEGIN_NS) / NS)


@pytest.mark.parametrize("label", ["1s", "10s", "60s"])
def test_rollups_stay(label: str, long_run: LongRun) -> None:
    history = History(long_run.node)
    history.refresh()
    rolled = history.rolled([0], BEGIN_NS, long_run.now_ns, label)[0]
    width = int(label[:-1])
    at_s = np.arange(0, 50 * 3600, 5)
    assert np.array_equal(rolled.begin_ns, BEGIN_NS + np.unique(at_s // width * width) * NS)
    last = np.array([at_s[at_s // width == b][-1] for b in np.unique(at_s // width)[:50]])
    assert np.allclose(rolled.last[:50], 1e3 * WATTS * last)


def test_few_files_are_left(long_run: LongRun) -> None:
    for folder, table in ((long_run.node, "samples"), (long_run.rank, "edges")):
        assert len(segment_files(folder, table)) <= 3 + 12
    assert len(long_run.files()) < 130


def test_the_report_says_what_was_thinned(long_run: LongRun) -> None:
    end_ns = thinned_until_ns(RunReader(long_run.path))
    assert end_ns is not None and 24 * HOUR_NS <= long_run.now_ns - end_ns < 37 * HOUR_NS
    for asked in ({}, {"recompute": True}, {"part_s": (3600.0, 7200.0)}):
        report: Any = build(long_run.path, **asked).to_dict()
        (line,) = [line for line in report["warnings"] if "thinned" in line]
        assert line.startswith("raw data of the first") and "\n" not in line
    whole = build(long_run.path).to_dict()
    assert whole["total"]["energy_j"] == pytest.approx(WATTS * 50 * 3600, rel=1e-3)
    assert whole["run"]["steps"] == long_run.steps
    new = build(long_run.path, part_s=(40 * 3600.0, 41 * 3600.0)).to_dict()
    assert not [line for line in new["warnings"] if "thinned" in line]


def test_the_ledger_keeps_a_row_per_phase_and_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(folder_upkeep.KEPT_S, "ledger", 12 * 3600)
    run = LongRun(tmp_path, step_s=1.0)
    run.record(14)
    table = RunReader(run.path).ledger(0)
    assert table["time_ns"].to_numpy().sum() == run.steps * NS
    assert table["count"].to_numpy().sum() == 4 * run.steps
    old = table.filter(np.asarray(table["step"]) < 3600)
    assert old.num_rows <= 4 * (360 + 1)
    new = table.filter(np.asarray(table["step"]) >= 13 * 3600)
    assert new.num_rows >= 4 * 3600 - 4


def test_ledger_batches_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    step = np.repeat(np.arange(2000), 3)
    columns = {
        "step": step,
        "code": np.tile([1, 2, 3], 2000).astype(np.uint16),
        "count": np.ones(6000, np.uint32),
        "time_ns": rng.integers(1, 40_000_000, 6000),
    }
    batch = pa.record_batch([pa.array(columns[f.name], type=f.type) for f in LEDGER], schema=LEDGER)
    pieces = [batch.slice(a, 700) for a in range(0, 6000, 700)]
    whole = pa.Table.from_batches(list(thin_ledger([batch])))
    assert pa.Table.from_batches(list(thin_ledger(pieces))).equals(whole)
    assert whole["time_ns"].to_numpy().sum() == columns["time_ns"].sum()


def test_what_goes_on_when_a_kept_minute_ends_is_ended() -> None:
    """On another thread, whose marks hold until the next one."""
    at = [10, 59, 61, 70, 3599, 3601, 3700]
    kind = [Record.MARK, Record.MARK, Record.VALUE, Record.LEAVE, *[Record.MARK] * 3]
    columns = {
        "time_ns": np.array(at, np.int64) * NS,
        "payload": np.zeros(len(at), np.int64),
        "sequence": np.arange(len(at), dtype=np.uint32),
        "kind": np.array(kind, np.uint8),
        "code": np.full(len(at), 4, np.uint16),
    }
    batch = pa.record_batch([pa.array(columns[f.name], type=f.type) for f in EDGES], schema=EDGES)
    for pieces in ([batch], [batch.slice(0, 2), batch.slice(2)]):
        thinner = EdgeThinner((), begins=False)
        kept = pa.Table.from_batches(list(thinner(pieces)))["time_ns"].to_numpy() // NS
        assert kept.tolist() == [10, 59, 61, 70, 3601, 3700]


class Killed(BaseException):
    """Nothing of the process runs any more."""


def kill_after(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies in the place of its n-th rename or removal of a file that counted."""
    left = [number]
    replace, unlink = os.replace, Path.unlink

    def die_or(what: Any) -> Any:
        def act(*args: Any, **named: Any) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            what(*args, **named)

        return act

    def remove(path: Path, **named: Any) -> None:
        (unlink if path.name.startswith(".") else die_or(unlink))(path, **named)

    monkeypatch.setattr(os, "replace", die_or(replace))
    monkeypatch.setattr(Path, "unlink", remove)


def sums_of(run: LongRun) -> tuple[Any, ...]:
    """What readers make of it: sums that no join and no thinning may change."""
    reader = RunReader(run.path)
    (series,) = reader.series()
    ledger = reader.ledger(0)
    assert np.all(np.diff(series.time_ns) > 0)  # each once
    return (
        reader.values(0)["samples"][1].sum(),
        len(reader.steps_ns(0)),
        int(ledger["time_ns"].to_numpy().sum()),
        int(ledger["count"].to_numpy().sum()),
        float(series.value[-1]),
        reader.damaged,
    )


def test_a_kill_at_any_moment_leaves_each_row_counted_once(tmp_path: Path) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    run.record(40, tidy=False)
    expected = sums_of(run)
    chance, kills = random.Random(6), 0
    for _ in range(400):
        with pytest.MonkeyPatch.context() as patch:
            kill_after(chance.choice((0, 0, 1, 1, 1, 2, 5)), patch)
            try:
                run.upkeep.tidy(run.now_ns)
                break
            except Killed:
                kills += 1
        assert sums_of(run) == expected
        run.upkeep = Upkeep(run.path, run.epoch, run.fence)
        run.now_ns += 400 * NS  # another one comes some minutes later
    else:
        pytest.fail("it never came to an end")
    assert kills > 10
    for later_h in (25, 26, 27):
        run.upkeep.tidy(run.now_ns + later_h * HOUR_NS)
    assert sums_of(run) == expected
    assert len(segment_files(run.rank, "edges")) == 3 + 4
    assert not list(run.path.rglob("edges-main0-1-000001.parquet"))
    assert not [path for path in run.files() if path.name.startswith(".")]


def test_a_superseded_recorder_writes_nothing(tmp_path: Path) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    claim(run.path, 1)
    run.record(27, tidy=False)
    claim(run.path, 2)
    before = {path: path.stat().st_mtime_ns for path in run.files()}
    with pytest.raises(SupersededError):
        Upkeep(run.path, 1, fence_of(run.path, 1)).tidy(run.now_ns)
    assert {path: path.stat().st_mtime_ns for path in run.files()} == before
    hot = SegmentWriter(run.node, "samples-1", SAMPLES)
    hot.write({f.name: np.ones(3, f.type.to_pandas_dtype()) for f in SAMPLES})
    sealer = Sealer(fence=fence_of(run.path, 1))
    paths = hot.close()
    sealer.take(paths)
    sealer.finish()
    assert all(path.exists() for path in paths)
    # Its successor does it, and seals what the old one left hot.
    run.replace_recorder(2)
    expected = RunReader(run.path).values(0)["samples"][1].sum()
    run.tidy()
    run.now_ns += 700 * NS
    run.tidy()
    assert not list(run.path.rglob("*.arrows"))
    assert any("thin" in path.name for path in run.files())
    assert RunReader(run.path).values(0)["samples"][1].sum() == expected


def test_what_was_joined_stays_a_while_for_those_who_found_it(tmp_path: Path) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    run.record(13, tidy=False)
    paths = segment_files(run.rank, "edges")
    run.tidy()
    assert len(segment_files(run.rank, "edges")) == 2 and all(path.exists() for path in paths)
    run.tidy()
    assert all(path.exists() for path in paths)
    run.now_ns += 601 * NS
    run.tidy()
    assert sum(path.exists() for path in paths) == 1


def test_a_damaged_segment_is_left_alone_and_said(tmp_path: Path) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    run.record(27, tidy=False)
    path = segment_files(run.rank, "edges")[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    failed: list[str] = []
    run.upkeep.tidy(run.now_ns, failed.append)
    assert failed and all(path.stem in line or "join" in line for line in failed)
    reader = RunReader(run.path)
    reader.rings(0)
    assert reader.damaged == {path} and path.exists()


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    run.record(27, tidy=False)
    before = sorted(run.files())

    def refuse(_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    failed: list[str] = []
    run.upkeep.tidy(run.now_ns, failed.append)
    assert failed and [p for p in sorted(run.files()) if "rollup" not in p.parts] == [
        p for p in before if "rollup" not in p.parts
    ]


def test_a_new_writer_numbers_on_after_what_was_joined(tmp_path: Path) -> None:
    run = LongRun(tmp_path, step_s=60.0, every_s=60)
    run.record(13)
    run.now_ns += 700 * NS
    run.tidy()
    writer = SegmentWriter(run.rank, "edges-main0-1", EDGES)
    writer.write({f.name: np.ones(3, f.type.to_pandas_dtype()) for f in EDGES})
    (path,) = writer.close()
    assert path.stem == "edges-main0-1-000014"
    assert seal_segment(path) is not None
    assert table_of(run.rank, "edges", EDGES).num_rows == 13 * 60 * 7 + 3
