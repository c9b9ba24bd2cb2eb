"""kill -9 at a random step, start again: the same losses, data, k and loss scale."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.scripts import SCRIPTS

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Trainer  # noqa: E402
from optimizers.errors import TrainingFailed, UsageError  # noqa: E402
from optimizers.training import snapshot  # noqa: E402
from optimizers.training.background import BackgroundWriter  # noqa: E402
from probe.report.build import run_report as report_of  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

SCRIPT = SCRIPTS / "train_resumable.py"
KILLS = 20 if os.environ.get("PROVE") else 1


def start(snapshots: Path, log: Path, *options: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PROBE_DIR": str(snapshots.parent / "runs"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SCRIPT.parents[2]),
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(snapshots), str(log), *options], env=environment
    )


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder / "snapshots", folder / "log").wait(timeout=processes.HUNG_S) == 0
    logged = lines(folder / "log")
    assert logged[-1] == "done" and len(logged) > 100
    assert len({line.split()[1] for line in logged[:-1]}) > 1, "k never changed"
    return logged


@pytest.mark.parametrize(
    "options", [pytest.param((), marks=pytest.mark.full), ("background",)], ids=["", "background"]
)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_training_goes_on_as_if_nothing_had_been(number, options, whole, tmp_path):
    at = random.Random(number).randrange(5, len(whole) - 5)
    snapshots, log = tmp_path / "snapshots", tmp_path / "log"
    child = start(snapshots, log, *options)
    deadline = time.monotonic() + 120
    while len(lines(log)) < at and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = lines(log)
    assert before and before[-1] != "done"
    assert start(snapshots, log, *options).wait(timeout=processes.HUNG_S) == 0
    after = lines(log)[len(before) :]
    complete = before if before[-1] in whole else before[:-1]  # a line may be torn
    assert complete == whole[: len(complete)]
    first = int(after[0].split()[0])
    assert first <= int(complete[-1].split()[0]) and first % 4 == 0
    begin = next(i for i, line in enumerate(whole) if int(line.split()[0]) == first)
    assert after == whole[begin:]
    runs = list((tmp_path / "runs").glob("2*"))
    assert len(runs) == (1 if first else 2), "only without a snapshot it begins a run of its own"
    if first:
        report = report_of(runs[0])
        assert [row.attempt for row in report.attempts] == [0, 1]
        assert "died" in report.attempts[0].ended_by
        assert report.run.status == "finished" and report.attempts[0].lost_s is not None


def test_a_snapshot_that_was_not_finished_is_not_seen(tmp_path):
    state = {"at": snapshot.Position(step=3).saved()}
    snapshot.save(tmp_path, 3, state, lambda folder: None)
    (tmp_path / ".step-000000004.partial").mkdir()
    newest = snapshot.latest(tmp_path)
    assert newest is not None and snapshot.load(newest) == state


def test_a_snapshot_of_another_version_is_refused_in_a_line(tmp_path):
    snapshot.save(tmp_path, 3, {"at": {"step": 3, "eval_seconds": 1.0}}, lambda folder: None)
    with pytest.raises(UsageError, match="saved by another version"):
        snapshot.load(snapshot.latest(tmp_path))


def test_only_the_newest_snapshots_are_kept(tmp_path):
    for step in range(5):
        snapshot.save(tmp_path, step, {"step": step}, lambda folder: None)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "step-000000003",
        "step-000000004",
    ]


def run_elastic(folder: Path, ranks: int, steps: int, *options: str) -> list[str]:
    """Train up to a step on so many ranks; the lines of this attempt."""
    log = folder / "log"
    before = len(lines(log))
    script = str(SCRIPT.with_name("train_elastic.py"))
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "tests.scripts.forked_ranks", str(ranks)]
    environment = os.environ | {
        "PROBE_DIR": str(folder / "runs"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SCRIPT.parents[2]),
    }
    subprocess.run(
        [*command, script, str(folder / "snapshots"), str(log), str(steps), *options],
        env=environment,
        timeout=processes.HUNG_S,
        capture_output=True,
    )
    return lines(log)[before:]


@pytest.mark.full
@pytest.mark.parametrize(
    "attempts",
    [((2, 11, 0), (3, 30, 10)), ((4, 11, 0), (2, 22, 10), (3, 30, 20))],
    ids=["2,3", "4,2,3"],
)
def test_other_numbers_of_ranks_go_on_with_the_same_losses(
    attempts: tuple[tuple[int, int, int], ...], tmp_path: Path
) -> None:
    """(ranks, until which step, from which): as one process that never stopped."""
    alone = tmp_path / "alone"
    alone.mkdir()
    expected = [float(line.split()[1]) for line in run_elastic(alone, 1, 30)]
    assert len(expected) == 30
    folder = tmp_path / "elastic"
    folder.mkdir()
    for ranks, until, begins in attempts:
        attempt = run_elastic(folder, ranks, until)
        assert [int(line.split()[0]) for line in attempt] == list(range(begins, until))
        losses = [float(line.split()[1]) for line in attempt]
        assert losses == pytest.approx(expected[begins:until], rel=2e-4)
    assert len(list((folder / "runs").glob("2*"))) == 1, "all attempts are one run"


@pytest.mark.full
def test_two_ranks_name_a_background_snapshot_together(tmp_path: Path) -> None:
    alone, folder = tmp_path / "alone", tmp_path / "two"
    alone.mkdir()
    folder.mkdir()
    expected = [float(line.split()[1]) for line in run_elastic(alone, 1, 18)]
    run_elastic(folder, 2, 13, "background")
    newest = snapshot.latest(folder / "snapshots")
    assert newest is not None and newest.name in ("step-000000005", "step-000000010")
    names = sorted(path.name for path in newest.iterdir())
    assert names == ["0-trainer.pt", "1-trainer.pt", "engine.pt"]
    again = run_elastic(folder, 2, 18, "background")
    begins = int(newest.name.rpartition("-")[2])
    assert [int(line.split()[0]) for line in again] == list(range(begins, 18))
    losses = [float(line.split()[1]) for line in again]
    assert losses == pytest.approx(expected[begins:18], rel=2e-4)


@pytest.mark.full  # killed where a snapshot is; at a random step above
def test_a_killed_training_that_is_resumed_is_one_run(tmp_path: Path) -> None:
    snapshots, log = tmp_path / "snapshots", tmp_path / "log"
    child = start(snapshots, log)
    deadline = time.monotonic() + 120
    while len(lines(log)) < 60 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert start(snapshots, log).wait(timeout=processes.HUNG_S) == 0
    (run,) = (tmp_path / "runs").glob("2*")
    report = report_of(run)
    assert [row.attempt for row in report.attempts] == [0, 1]
    assert "died" in report.attempts[0].ended_by
    assert report.run.status == "finished"
    assert report.run.steps >= 60 and report.attempts[0].lost_s is not None


@pytest.mark.parametrize("polled", [True, False])
def test_ranks_that_saw_a_snapshot_at_other_steps_call_the_same_collectives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polled: bool
) -> None:
    """Rank 0 may have named it before the next one, rank 1 may not have looked since."""
    barriers: list[None] = []
    monkeypatch.setattr(snapshot, "_rank", lambda: (0, True))
    monkeypatch.setattr(snapshot, "_world", lambda: 1)
    monkeypatch.setattr(snapshot.dist, "barrier", lambda: barriers.append(None))
    writer = BackgroundWriter(tmp_path)
    writer.save(4, {snapshot.state_file(): {}})
    deadline = time.monotonic() + 20
    while polled and snapshot.latest(tmp_path) is None and time.monotonic() < deadline:
        writer.poll()
    barriers.clear()
    writer.save(8, {snapshot.state_file(): {}})
    assert len(barriers) == 3  # before and after the first gets its name, before the second
    writer.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000004", "step-000000008"]


def test_snapshots_of_an_earlier_training_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    snapshot.save(tmp_path, 4, {"at": {"step": 4}}, lambda folder: None)
    trainer = Trainer(stacked(), samples(32), loss, samples=32, snapshots=tmp_path, quiet=True)
    with pytest.raises(UsageError, match="resume=True, or name another folder"):
        trainer.fit()


def test_a_background_snapshot_is_complete_or_not_there(tmp_path: Path) -> None:
    """The training goes on while it is written, and a disk refuses the next one."""
    writer = BackgroundWriter(tmp_path)
    state = {"at": snapshot.Position(step=4).saved(), "weights": torch.ones(3)}
    writer.save(4, {snapshot.state_file(): state})
    state["weights"] += 1  # the training goes on: the snapshot is of before
    writer.finish()
    newest = snapshot.latest(tmp_path)
    assert newest is not None and newest.name == "step-000000004"
    stored = snapshot.load(newest)
    assert stored["weights"].tolist() == [1.0, 1.0, 1.0]
    assert sorted(path.name for path in newest.iterdir()) == ["0-trainer.pt"]
    writer.save(8, {"no/folder/here.pt": state})
    with pytest.raises(TrainingFailed, match="step 8 cannot be written"):
        writer.finish()
    assert snapshot.latest(tmp_path) == newest
