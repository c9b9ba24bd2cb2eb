"""Trouble with the disk: one clear line, the training unharmed, the rest of the data kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.model import RunStatus
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.processes import AWAIT_RECORDER, PLAIN, wait_until
from tests.fakes.small_disk import small_file_system

LOOP = """
import sys, time
import probe
with probe.watch(name="disk") as run:
    print(getattr(run, "path", None), flush=True)
    n = 0
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for _ in range(2000):
            with run.phase("work"):
                n += 1
        time.sleep(0.02)
print("trained", flush=True)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_file_system(tmp_path / "runs", "1m") as disk:
        yield disk


def test_a_disk_that_fills_up_keeps_what_was_written(small_disk: Path, tmp_path: Path) -> None:
    process = processes.start(LOOP, tmp_path, "6")
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    assert wait_until(lambda: shutil.disk_usage(small_disk).free < 100_000)
    assert process.stdout.read().strip() == "trained"
    assert process.wait() == 0
    reader = RunReader(run)
    _, rows = reader.rings(0)[0]
    assert len(rows) > 10_000
    out = processes.probe(tmp_path, "report", str(run))
    assert out.returncode == 0, out.stderr
    for ring in Path("/dev/shm").glob(f"phasewatt-*{run.name}*"):
        ring.unlink()


def test_a_full_disk_at_the_start_is_one_line(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "ballast").write_bytes(b"\1" * (1 << 20))
    result = processes.run(LOOP, tmp_path, "0.2")
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "trained"
    assert len(result.stderr.splitlines()) == 1
    assert "goes on unwatched" in result.stderr


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a directory")
    result = processes.run(LOOP, tmp_path, "0.2")
    assert result.returncode == 0
    assert result.stdout == f"{tmp_path / 'runs' / 'not-recorded'}\ntrained\n"
    assert len(result.stderr.splitlines()) == 1
    assert "cannot write runs" in result.stderr


def test_a_run_directory_that_vanishes_harms_nothing(tmp_path: Path) -> None:
    process = processes.start(LOOP, tmp_path, "3", stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    run = Path(process.stdout.readline().strip())
    time.sleep(1.0)
    run.rename(tmp_path / "gone")  # at once: the recorder writes into it meanwhile
    shutil.rmtree(tmp_path / "gone")
    assert process.stdout.read().strip() == "trained"
    assert process.wait() == 0
    said = process.stderr.read().splitlines()
    assert said and said[-1] == f"phasewatt: the end of {run} is lost: it was moved or removed"
    assert wait_until(lambda: not list(Path("/dev/shm").glob(f"phasewatt-*{run.name}*")))
    assert not run.exists()  # it was removed; nothing of it comes back


def test_two_runs_into_one_directory_at_once(tmp_path: Path) -> None:
    a = processes.start(PLAIN, tmp_path, "1.0", name="a.py")
    b = processes.start(PLAIN, tmp_path, "1.0", name="b.py")
    assert a.wait() == b.wait() == 0
    runs = [p.parent for p in (tmp_path / "runs").glob("*/run.json")]
    assert len(runs) == 2
    assert {processes.status_at_end(run) for run in runs} == {RunStatus.FINISHED}


def test_rings_go_to_the_run_directory_when_memory_is_full(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: unshare --mount")
    code = LOOP.replace("    n = 0\n", "    n = 0\n    await_recorder(run)\n")
    script = processes.write(tmp_path / "s.py", AWAIT_RECORDER + code)
    import sys

    inner = f"mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {sys.executable} {script} 1.0"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inner],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs"),
        cwd=tmp_path,
        timeout=processes.HUNG_S,
        check=False,
    )
    if "unshare" in result.stderr or "mount:" in result.stderr:
        pytest.skip(result.stderr)
    assert result.stdout.splitlines()[-1] == "trained", result.stderr
    run = Path(result.stdout.splitlines()[0])
    assert processes.status_at_end(run) is RunStatus.FINISHED
    assert len(RunReader(run).rings(0)[0][1]) > 1000
