"""Whatever is killed, the run opens, says how it ended, and holds what was written."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from probe.model import RunStatus
from probe.ring import layout
from probe.ring.layout import Record
from probe.store.reader import RunReader, last_sample_ns
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.processes import (
    MARKER,
    UNTIL_FILE,
    await_recorder,
    recorder_pid,
    sealed,
    wait_until,
)

pytestmark = pytest.mark.paced

KILLS = 100 if os.environ.get("PROVE") else 4
COUNTED = "work"


def turns(folder: Path) -> int:
    """How many pairs of edges MARKER has written, by its own count."""
    count: int = struct.unpack("<Q", (folder / "count").read_bytes()[:8])[0]
    return count


def work_edges(run: Path) -> int:
    reader = RunReader(run)
    (name, rows), *_ = reader.rings(0)
    code = next(c for c, n in reader.names(0, name).items() if n == COUNTED)
    return int(np.count_nonzero((rows["kind"] == Record.MARK) & (rows["code"] == code)))


def lost(run: Path) -> int:
    return sum(g.count for g in RunReader(run).gaps() if g.what.startswith("edges of"))


@pytest.mark.parametrize("trial", range(KILLS))
def test_kill_the_trainer_at_a_random_moment(trial: int, tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    process = processes.start(MARKER, tmp_path, str(tmp_path / "count"), extra=rig.env())
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    assert wait_until(lambda: turns(tmp_path) > 0)  # a busy machine may pause it before the first
    delay = random.Random(trial).choice([0.0, 0.02, 0.2, 0.6, 1.0, 1.7, 2.5])
    time.sleep(delay + random.Random(-trial - 1).uniform(0, 0.3))
    recorded = recorder_pid(run) is not None  # else it may be killed before the recorder was up
    killed_ns = time.monotonic_ns()
    process.kill()
    process.wait()
    process.stdout.close()
    written = turns(tmp_path)
    assert RunReader(run).status in (RunStatus.RUNNING, RunStatus.KILLED)
    assert processes.status_at_end(run) is RunStatus.KILLED
    assert lost(run) == 0
    assert written <= work_edges(run) <= written + 1
    newest = last_sample_ns(next(run.glob("node-*")))
    assert not recorded or (newest is not None and newest > killed_ns - 1_000_000_000)
    report = json.loads(processes.probe(tmp_path, "report", str(run), "--format", "json").stdout)
    assert report["run"]["status"] == "killed"
    assert any(row["phase"] == "work" for row in report["phases"])


def test_kill_the_recorder_and_training_goes_on_with_a_gap(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    code = """
    import sys, time, torch, probe
    model = torch.nn.Linear(4, 4); opt = torch.optim.SGD(model.parameters(), 0.1)
    with probe.watch(model, opt, name="survivor") as run:
        print(run.path, flush=True)
        end = time.monotonic() + 5.0
        steps = 0
        while time.monotonic() < end or steps < 400:
            steps += 1
            model(torch.ones(2, 4)).sum().backward(); opt.step(); opt.zero_grad()
            time.sleep(0.005)
    print("trained", flush=True)
    """
    process = processes.start(code, tmp_path, extra=rig.env())
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    first = await_recorder(run)
    time.sleep(1.2)
    os.kill(first, signal.SIGKILL)
    assert process.stdout.read().strip() == "trained"
    assert process.wait() == 0
    assert wait_until(lambda: sealed(run))
    assert recorder_pid(run) != first
    reader = RunReader(run)
    assert reader.status is RunStatus.FINISHED
    assert [g for g in reader.gaps() if g.what == "recorder"]
    assert lost(run) == 0
    _, rows = reader.rings(0)[0]
    steps = rows["payload"][rows["kind"] == Record.STEP]
    assert len(steps) > 300
    assert np.array_equal(steps, np.arange(len(steps)))  # not one step missing or twice
    assert json.loads((run / "run.json").read_text())["steps"] == len(steps)


@pytest.mark.parametrize("delay_s", [0.05, 0.15])
def test_kill_the_recorder_while_it_closes_a_run_that_has_finished(
    delay_s: float, tmp_path: Path
) -> None:
    """It has drained how the training ended; the next one has to know that, too."""
    rig = NvmlRig(tmp_path, gpus=1, power_w=250.0, period_s=0.1)
    code = """
    import time, torch, probe
    from pathlib import Path
    model = torch.nn.Linear(4, 4); opt = torch.optim.SGD(model.parameters(), 0.1)
    with probe.watch(model, opt, name="ended") as run:
        print(run.path, flush=True)
        steps, end = 0, time.monotonic() + 3.0
        while time.monotonic() < end or not Path("go").exists():
            steps += 1
            model(torch.ones(2, 4)).sum().backward(); opt.step(); opt.zero_grad()
            time.sleep(0.005)
        print(steps, flush=True)
    """
    process = processes.start(code, tmp_path, extra=rig.env())
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    begun_s = time.monotonic()
    recorder = await_recorder(run)
    (tmp_path / "go").touch()
    steps = int(process.stdout.readline())
    lasted_s = time.monotonic() - begun_s
    time.sleep(delay_s)
    os.kill(recorder, signal.SIGKILL)
    assert process.wait() == 0
    process.stdout.close()
    assert processes.status_at_end(run) is RunStatus.FINISHED
    assert wait_until(lambda: "duration_s" in json.loads((run / "run.json").read_text()))
    stored = json.loads((run / "run.json").read_text())
    assert stored["steps"] == steps and stored["exit_code"] == 0
    # From the begin of the block, some moments before its first line.
    assert lasted_s < stored["duration_s"] < lasted_s + 1.5


def test_a_stopped_recorder_is_replaced_and_stays_fenced_when_it_wakes(tmp_path: Path) -> None:
    code = UNTIL_FILE.replace("compute", "work") + "print('done', flush=True)\n"
    stop = tmp_path / "stop"
    process = processes.start(code, tmp_path, str(stop))
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    first = await_recorder(run)
    os.kill(first, signal.SIGSTOP)
    assert wait_until(lambda: recorder_pid(run) not in (None, first))
    second = recorder_pid(run)
    before = {p: p.stat().st_size for p in run.rglob("*-1-0*")}
    os.kill(first, signal.SIGCONT)
    assert wait_until(lambda: not os.path.exists(f"/proc/{first}"))
    assert {p: p.stat().st_size for p in before if p.exists()} == before  # it wrote nothing more
    assert recorder_pid(run) == second
    stop.touch()
    assert process.stdout.read().strip() == "done"
    process.wait()
    assert wait_until(lambda: sealed(run))
    _, rows = RunReader(run).rings(0)[0]
    assert np.all(np.diff(rows["sequence"].astype(np.int64)) == 1)  # nothing lost, nothing twice


def test_both_killed_the_run_still_opens_with_its_undrained_edges(tmp_path: Path) -> None:
    process = processes.start(MARKER, tmp_path, str(tmp_path / "count"))
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    recorder = await_recorder(run)
    time.sleep(0.7)
    os.kill(recorder, signal.SIGKILL)
    time.sleep(0.2)
    process.kill()
    process.wait()
    written = turns(tmp_path)
    before = sorted((p, p.stat().st_mtime_ns) for p in run.rglob("*"))
    assert RunReader(run).status is RunStatus.KILLED
    edges = work_edges(run)
    assert edges == written or lost(run) or edges >= written - 140_000 // 2
    assert edges >= min(written, 60_000)
    # Reading wrote nothing.
    assert sorted((p, p.stat().st_mtime_ns) for p in run.rglob("*")) == before
    assert rings_of(run)
    out = processes.probe(tmp_path, "report", str(run))
    assert out.returncode == 0, out.stderr
    assert "killed" in out.stdout
    # The report has moved them into the run.
    assert not rings_of(run)
    assert work_edges(run) == edges
    assert processes.probe(tmp_path, "report", str(run)).stdout == out.stdout


def rings_of(run: Path) -> list[Path]:
    return list(Path("/dev/shm").glob(f"phasewatt-*{run.name}*"))


def killed_with_its_recorder(folder: Path) -> Path:
    """A run of which all processes are gone, and its ring in memory."""
    process = processes.start(MARKER, folder, str(folder / "count"))
    assert process.stdout is not None
    with process.stdout:
        run = Path(process.stdout.readline().strip())
    os.kill(await_recorder(run), signal.SIGKILL)
    process.kill()
    process.wait()
    return run


def age(run: Path) -> None:
    """As if its rings had been left two minutes ago."""
    ago_ns = 120 * 10**9
    for path in rings_of(run):
        with path.open("r+b") as ring:
            ring.seek(layout.HEARTBEAT)
            ring.write(layout.WORD.pack(time.monotonic_ns() - ago_ns))
        os.utime(path, ns=(time.time_ns() - ago_ns,) * 2)


def test_doctor_removes_what_killed_jobs_left_in_memory(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    left, removed, just_removed = (killed_with_its_recorder(tmp_path) for _ in range(3))
    elsewhere, just_left_elsewhere = (killed_with_its_recorder(other) for _ in range(2))
    living = processes.start(MARKER, tmp_path, str(tmp_path / "count"))
    assert living.stdout is not None
    lives = Path(living.stdout.readline().strip())
    await_recorder(lives)
    shutil.rmtree(removed)
    shutil.rmtree(just_removed)  # a process in a container may look as dead, and use its ring
    for run in (removed, elsewhere):
        age(run)
    written = work_edges(elsewhere)
    out = processes.probe(tmp_path, "doctor", "--fix")
    assert out.returncode == 0, out.stderr
    assert [len(rings_of(run)) for run in (left, removed, elsewhere)] == [0, 0, 0]
    assert all(rings_of(run) for run in (just_removed, just_left_elsewhere, lives))
    assert re.match(r"\d+ rings were read into their runs, \d+ of unknown runs rem", out.stderr)
    assert work_edges(elsewhere) == written > 0
    for run in (just_removed, just_left_elsewhere):
        for ring in rings_of(run):
            ring.unlink()
    living.kill()
    living.wait()
    living.stdout.close()
    assert wait_until(lambda: sealed(lives))


def test_killing_the_ranks_process_group_spares_the_recorder(tmp_path: Path) -> None:
    process = processes.start(MARKER, tmp_path, str(tmp_path / "count"), start_new_session=True)
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    await_recorder(run)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert processes.status_at_end(run) is RunStatus.KILLED
