"""The end of a task: whose recorders are waited for before the job's block is printed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from probe.launcher import task
from probe.store import files


def write(path: Path, status: str) -> None:
    path.parent.mkdir(exist_ok=True)
    files.write_json(path, {"schema": 1, "status": status}, checked=True)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each block that is printed: whether its host's files were closed."""
    blocks: list[bool] = []
    monkeypatch.setattr(task, "print_end", lambda _run, *, sealed: blocks.append(sealed))
    return blocks


def test_the_block_waits_for_other_hosts(tmp_path: Path, printed: list[bool]) -> None:
    other = tmp_path / "node-n2" / "node.json"
    write(tmp_path / "run.json", "finished")
    write(other, "running")
    timer = threading.Timer(0.4, write, (other, "finished"))
    timer.start()
    began = time.monotonic()
    task._finish([tmp_path], quiet=False, others_s=60.0)
    timer.join()
    assert 0.4 <= time.monotonic() - began < 30.0
    assert printed == [True]


def test_a_host_that_never_ends_does_not_keep_the_block(
    tmp_path: Path, printed: list[bool]
) -> None:
    write(tmp_path / "run.json", "finished")
    write(tmp_path / "node-n2" / "node.json", "running")
    began = time.monotonic()
    task._finish([tmp_path], quiet=False, others_s=0.2)
    assert 0.2 <= time.monotonic() - began < 5.0
    assert printed == [True]


def test_a_quiet_task_waits_for_its_own_host_only(tmp_path: Path, printed: list[bool]) -> None:
    write(tmp_path / "run.json", "finished")
    write(tmp_path / "node-n2" / "node.json", "running")
    began = time.monotonic()
    task._finish([tmp_path], quiet=True, others_s=60.0)
    assert time.monotonic() - began < 5.0
    assert printed == []
