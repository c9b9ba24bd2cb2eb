"""Which training a process below `probe run` is, and how people name it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probe.errors import UnknownRunError, UsageError
from probe.store.processes import start_ticks
from probe.store.reader import RunReader
from probe.store.runs import create_run, find_run, find_runs
from probe.store.trainings import is_group, numbers, take_number
from tests.fakes.listed_runs import summaries
from tests.fakes.stored_group import member, stored_group

TRAININGS = ((10.0, 20.0), (30.0, 50.0))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, "20260101-000000-a", shared=False, fields={"name": "sweep"})


def taken(run: Path, key: str | None = None, rank: int = 0, attempt: int = 0) -> int:
    return take_number(run, key=key, rank=rank, attempt=attempt, fields={"name": "train"})


def joins(run: Path, number: int, rank: int = 0, attempt: int = 0, *, alive: bool = True) -> None:
    """A rank of that training writes its file."""
    pid = os.getpid()
    made = dataclasses.replace(member(run, number), rank=rank, attempt=attempt)
    if alive:
        made = dataclasses.replace(made, pid=pid, start_ticks=start_ticks(pid) or 0)
    dataclasses.replace(made, begin_ns=made.begin_ns + rank).write(run)


def test_each_process_is_a_training(run: Path) -> None:
    assert [taken(run) for _ in range(3)] == [1, 2, 3]
    assert numbers(run) == [1, 2, 3]


TAKE = """
import sys
from pathlib import Path
from probe.store.trainings import take_number
print(take_number(Path(sys.argv[1]), key=None, rank=0, attempt=0, fields={}))
"""


def test_many_at_once_get_different_numbers(run: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", TAKE, str(run)], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert sorted(int(child.communicate()[0]) for child in started) == [1, 2, 3, 4, 5, 6]


def test_ranks_of_a_job_are_one_training(run: Path) -> None:
    assert taken(run, "job", rank=0) == 1
    joins(run, 1, rank=0)
    assert taken(run, "job", rank=1) == 1
    assert taken(run, "another") == 2
    assert is_group(run)


def test_a_restart_is_the_same_training_and_a_second_job_of_that_key_another(run: Path) -> None:
    assert taken(run, "job") == 1
    joins(run, 1, alive=False)
    assert taken(run, "job", attempt=1) == 1
    assert taken(run, "job", attempt=0) == 2


def test_how_people_name_them(tmp_path: Path) -> None:
    run = stored_group(tmp_path, TRAININGS)
    for reference in ("latest/2", f"{run.name}/2", f"{run.name[:12]}/2", "sweep/2", f"{run}/2"):
        assert find_run(reference, tmp_path) == run / "training-2"
    assert find_run("latest", tmp_path) == run
    assert find_runs("latest/1", tmp_path) == [run / "training-1"]
    with pytest.raises(UnknownRunError, match="has 2 trainings, no number 3"):
        find_run("latest/3", tmp_path)
    for reference in ("latest", "sweep"):
        with pytest.raises(UsageError, match="latest/1"):
            find_runs(reference, tmp_path)


def test_the_only_training_is_the_run(tmp_path: Path) -> None:
    run = stored_group(tmp_path, TRAININGS[:1])
    assert find_run("latest/1", tmp_path) == run
    assert find_runs("latest", tmp_path) == [run]
    assert RunReader(run).ranks() == [0]


def test_a_list_of_runs_has_a_joule_once(tmp_path: Path) -> None:
    stored_group(tmp_path, TRAININGS)
    (row,) = summaries(tmp_path)
    assert [training["steps"] for training in row["trainings"]] == [100, 200]
    assert [training["id"] for training in row["trainings"]] == [f"{row['id']}/{k}" for k in (1, 2)]


def test_edges_of_one_training_are_not_anothers(tmp_path: Path) -> None:
    run = stored_group(tmp_path, TRAININGS)
    assert RunReader(run).ranks() == []
    for number, steps in ((1, 100), (2, 200)):
        reader = RunReader(run / f"training-{number}")
        assert reader.ranks() == [0]
        assert len(reader.steps_ns(0)) == steps
        assert (reader.end_ns() - reader.begin_ns) / 1e9 == steps / 10
