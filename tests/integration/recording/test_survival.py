"""The recorder outlives full disks and missing descriptors, and is replaced as often as it dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from probe.recorder.spawn import current_epoch, signed
from probe.ring.layout import Record
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.failing_calls import ERRORS, failing_calls
from tests.fakes.nvml import NvmlRig
from tests.fakes.phase_ends import SCRIPT, recorded
from tests.fakes.processes import AWAIT_RECORDER, wait_until
from tests.fakes.selection import one_in
from tests.fakes.small_disk import fill, small_file_system

PROVE = bool(os.environ.get("PROVE"))
SECONDS, SPELL_S = (64.0, 10.0) if PROVE else (16.0, 3.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB for the runs."""
    with small_file_system(tmp_path / "runs", "24m") as disk:
        yield disk


@pytest.mark.parametrize("number", range(10 if PROVE else 1))
@pytest.mark.parametrize("error", one_in(4, ERRORS))
def test_file_calls_that_fail_for_a_while(error: str, number: int, tmp_path: Path) -> None:
    """The training is as it was, the run opens, and what lies outside the spell was recorded."""
    random = np.random.default_rng([ERRORS[error], number])
    environment, flag = failing_calls(tmp_path, tmp_path / "runs", error)
    process = processes.start(SCRIPT, tmp_path, "6", extra=environment, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    run = Path(process.stdout.readline().strip())
    time.sleep(random.uniform(0.1, 2.5))
    begin_ns = time.monotonic_ns()
    flag.touch()
    time.sleep(random.uniform(0.5, 2.0))
    flag.unlink()
    end_ns = time.monotonic_ns()
    ends = np.array(json.loads(process.stdout.readline()))
    assert process.wait(timeout=processes.HUNG_S) == 0
    noise = process.stderr.read()
    assert "Traceback" not in noise, noise
    assert wait_until(lambda: RunReader(run).status.value == "finished")
    outside = ends[(ends[:, 1] < begin_ns) | (ends[:, 1] > end_ns + 2e9)]
    held = recorded(run, outside)
    assert held.mean() >= 0.99, (held.mean(), len(outside), noise)


def test_a_disk_that_is_full_twice(small_disk: Path, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    process = processes.start(
        SCRIPT, tmp_path, str(SECONDS), extra=rig.env(), stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    processes.await_recorder(run)
    spells = []
    for _ in range(2):
        time.sleep(1.5)
        spells.append(fill(small_disk, SPELL_S))
        time.sleep(1.5)
    output, errors = process.communicate(timeout=processes.HUNG_S)
    assert process.returncode == 0
    ends = np.array(json.loads(output.splitlines()[-1]))
    assert wait_until(lambda: processes.sealed(run))
    within = [(begin <= ends[:, 1]) & (ends[:, 1] <= stop + 2e9) for begin, stop in spells]
    outside = ends[~np.any(within, axis=0)]
    assert recorded(run, outside).mean() >= 0.99 and len(outside) > 100
    report = json.loads(processes.probe(tmp_path, "report", str(run), "--format", "json").stdout)
    assert report["run"]["status"] == "finished"
    assert report["total"]["coverage"] > 0.8  # samples were kept in memory meanwhile
    assert not list(run.glob("node-*/lease-2"))
    lines = errors.splitlines()
    assert 2 <= len(lines) <= 4 and all(line.startswith("phasewatt: ") for line in lines)
    assert "the disk refuses" in lines[0] and "is recorded again" in lines[-1]


def test_a_recorder_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Once before its first beat, and then as often as it comes."""
    stop = tmp_path / "stop"
    process = processes.start(SCRIPT, tmp_path, str(stop), "at once")
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    kills = 5 if PROVE else 3
    for epoch in range(1, kills + 1):
        assert wait_until(lambda epoch=epoch: signed(run, epoch) is not None)
        pid = (signed(run, epoch) or (0, 0))[0]
        if epoch > 1:
            assert wait_until(lambda pid=pid: processes.recorder_pid(run) == pid)
        os.kill(pid, signal.SIGKILL)
    stop.touch()
    output, _ = process.communicate(timeout=processes.HUNG_S)
    assert process.returncode == 0
    assert wait_until(lambda: processes.sealed(run))
    assert recorded(run, np.array(json.loads(output.splitlines()[-1]))).all()
    assert current_epoch(run) == kills + 1
    report = json.loads(processes.probe(tmp_path, "report", str(run), "--format", "json").stdout)
    assert report["run"]["status"] == "finished"


THREADS = (
    AWAIT_RECORDER
    + """
import os, subprocess, sys, threading
import probe

def upload():
    with run.phase("upload"):
        pass

def descriptors():
    return len(os.listdir("/proc/self/fd"))

number = int(sys.argv[1])
with probe.watch() as run:
    await_recorder(run)
    for count in range(number):
        if count == 100:
            before = descriptors()
        thread = threading.Thread(target=upload)
        thread.start()
        thread.join()
    subprocess.run(["true"], check=True)
    print(before, descriptors(), flush=True)
"""
)


def test_threads_that_come_and_go_take_no_descriptors(tmp_path: Path) -> None:
    number = 10_000 if PROVE else 600
    limits = ["prlimit", "--nofile=256:256"]
    result = processes.run(THREADS, tmp_path, str(number), prefix=limits)
    assert result.returncode == 0, result.stderr
    before, after = map(int, result.stdout.split())
    assert after <= before + 2
    run = processes.only_run(tmp_path)
    assert wait_until(lambda: processes.sealed(run))
    marks = 0
    for name, rows in RunReader(run).rings(0):
        if not name.startswith("main"):
            marks += int((rows["kind"] == Record.LEAVE).sum())
    report = json.loads(processes.probe(tmp_path, "report", str(run), "--format", "json").stdout)
    assert marks + report["gaps"]["edges_lost"] == number
    assert not list(Path("/dev/shm").glob(f"phasewatt-*{run.name}*"))


@pytest.mark.parametrize("most", [24, 32, 48, 64])
def test_few_descriptors_harm_no_training(most: int, tmp_path: Path) -> None:
    result = processes.run(
        SCRIPT, tmp_path, "2", "at once", prefix=["prlimit", f"--nofile={most}:{most}"]
    )
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout.splitlines()[-1])) >= 100
    run = processes.only_run(tmp_path)
    report = processes.probe(tmp_path, "report", str(run))
    assert report.returncode == 0, report.stderr
