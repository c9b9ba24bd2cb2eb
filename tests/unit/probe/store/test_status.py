"""How a run stands is derived where nobody could write it down."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from probe.errors import StoreError, StoreVersionError, UnknownRunError
from probe.model import DeviceRequest, RunStatus
from probe.store import files, layout
from probe.store.members import Member
from probe.store.processes import boot_id, is_alive, start_ticks
from probe.store.reader import RunReader
from probe.store.runs import create_run, find_run, list_runs, new_run_id
from tests.fakes import processes


def make(tmp_path: Path, run_id: str = "20260101-000000-aaa", name: str = "x") -> Path:
    return create_run(tmp_path, run_id, shared=False, fields={"name": name})


def change(run: Path, **fields: object) -> None:
    files.write_json(run / "run.json", files.read_json(run / "run.json") | fields, checked=True)


def age(run: Path) -> None:
    old = time.time() - 3600
    os.utime(run / "run.json", (old, old))


def join(run: Path, pid: int, ticks: int, **fields: Any) -> None:
    Member(
        role="rank",
        rank=0,
        local_rank=None,
        local_world_size=1,
        world_size=1,
        host=layout.node_name(),
        boot_id=boot_id(),
        pid=pid,
        start_ticks=ticks,
        begin_ns=time.monotonic_ns(),
        rings="/nonexistent",
        prefix="x-",
        request=DeviceRequest(),
        **fields,
    ).write(run)


def test_a_living_member_means_running(tmp_path: Path) -> None:
    run = make(tmp_path)
    join(run, os.getpid(), start_ticks(os.getpid()) or 0)
    age(run)
    assert RunReader(run).status is RunStatus.RUNNING


def test_a_dead_member_means_killed_even_if_its_pid_is_used_again(tmp_path: Path) -> None:
    run = make(tmp_path)
    join(run, os.getpid(), 1)  # our pid, but another start time
    assert RunReader(run).status is RunStatus.KILLED


def test_another_boot_means_lost(tmp_path: Path) -> None:
    run = make(tmp_path)
    join(run, os.getpid(), start_ticks(os.getpid()) or 0)
    change(run, boot_id="another-boot")
    assert RunReader(run).status is RunStatus.LOST


def test_another_host_is_running_while_it_refreshes_and_lost_after(tmp_path: Path) -> None:
    run = make(tmp_path)
    change(run, host="elsewhere", boot_id="theirs")
    assert RunReader(run).status is RunStatus.RUNNING
    age(run)
    assert RunReader(run).status is RunStatus.LOST


def test_what_is_written_down_counts(tmp_path: Path) -> None:
    run = make(tmp_path)
    change(run, status="failed", boot_id="another-boot")
    assert RunReader(run).status is RunStatus.FAILED


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    ticks = start_ticks(child.pid)
    assert ticks is not None
    assert processes.wait_until(lambda: not is_alive(child.pid, ticks))
    child.wait()


def test_find_run(tmp_path: Path) -> None:
    old = make(tmp_path, "20260101-000000-one-aaa", "one")
    change(old, started="2026-01-01T00:00:00+00:00")
    new = make(tmp_path, "20260202-000000-one-bbb", "one")
    assert list_runs(tmp_path) == [new, old]
    assert find_run("latest", tmp_path) == new
    assert find_run("one", tmp_path) == new
    assert find_run("20260101", tmp_path) == old
    assert find_run(str(old), tmp_path / "nowhere") == old
    with pytest.raises(UnknownRunError, match="probe ls"):
        find_run("two", tmp_path)
    with pytest.raises(UnknownRunError, match="begins 2 run ids"):
        find_run("2026", tmp_path)


def test_run_files_that_cannot_be_read(tmp_path: Path) -> None:
    run = make(tmp_path)
    change(run, schema=2)
    with pytest.raises(StoreVersionError, match="pip install -U"):
        RunReader(run)
    (run / "run.json").write_text("[]")
    with pytest.raises(StoreError, match="damaged"):
        RunReader(run)


def test_ids_are_readable_and_unique() -> None:
    ids = {new_run_id("my run / 1", 1_700_000_000) for _ in range(50)}
    assert len(ids) == 50
    assert all(i.startswith("20231114-221320-my-run-1-") for i in ids)


def test_a_failed_replacement_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        files.write_json(path, {"a": object()})
    assert files.read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
