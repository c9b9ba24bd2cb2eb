"""Which job is this, and does its run go on?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from probe.session.jobs.job import agree, current_job
from probe.store.clocks import clocks
from probe.store.layout import RUN_FILE

LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "CROSS_SIZE",
    "GROUP_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "PBS_JOBID",
    "LSB_JOBID",
    "RAY_JOB_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_process_of_its_own_is_no_job() -> None:
    job = current_job()
    assert (job.key, job.rank, job.nodes) == (None, 0, 1)


def test_torchrun_on_one_host_and_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(
        monkeypatch,
        RANK="3",
        WORLD_SIZE="4",
        LOCAL_RANK="1",
        LOCAL_WORLD_SIZE="2",
        TORCHELASTIC_RUN_ID="abc",
        GROUP_WORLD_SIZE="2",
    )
    job = current_job()
    assert job.key == "torchelastic:abc" and not job.local_key and job.nodes == 2
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # a fixed master: everybody's id
    job = current_job()
    assert job.local_key and job.key is not None and "none" not in job.key
    launched(monkeypatch, GROUP_WORLD_SIZE="1", WORLD_SIZE="2", RANK="1")
    assert not current_job().local_key


def test_deepspeed_slurm_and_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK="1", WORLD_SIZE="4", LOCAL_RANK="1", LOCAL_SIZE="2", CROSS_SIZE="2")
    assert current_job().nodes == 2 and current_job().local_world_size == 2
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_SIZE"):
        monkeypatch.delenv(name)
    launched(
        monkeypatch,
        SLURM_PROCID="5",
        SLURM_NTASKS="8",
        SLURM_LOCALID="1",
        SLURM_NNODES="2",
        SLURM_NTASKS_PER_NODE="4",
        SLURM_JOB_ID="77",
        SLURM_STEP_ID="0",
        SLURM_RESTART_COUNT="1",
    )
    job = current_job()
    assert (job.key, job.rank, job.nodes, job.attempt) == ("SLURM_JOB_ID:77:0:1", 5, 2, 0)


def test_trainings_of_one_ray_are_jobs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process started the workers of all of them, below a step of Slurm's."""
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
    launched(monkeypatch, **slurm, RAY_JOB_ID="01000000")
    assert current_job().key is None  # a task of Ray's that is no worker of a training
    workers = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    launched(monkeypatch, **workers, MASTER_ADDR="192.0.2.1", MASTER_PORT="4001")
    first = current_job()
    assert (first.rank, first.nodes, first.local_key) == (1, 2, False)
    monkeypatch.setenv("MASTER_PORT", "4002")
    assert current_job().key not in (None, first.key)


def test_restarts_keep_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(
        monkeypatch,
        RANK="0",
        WORLD_SIZE="1",
        LOCAL_RANK="0",
        TORCHELASTIC_RUN_ID="x",
        TORCHELASTIC_RESTART_COUNT="1",
        TORCHELASTIC_MAX_RESTARTS="3",
    )
    job = current_job()
    assert (job.key, job.attempt, job.attempts_left) == ("torchelastic:x", 1, 2)


def run(folder: Path, name: str, status: str, age_s: float = 0.0) -> None:
    path = folder / name / RUN_FILE
    path.parent.mkdir()
    path.write_text(json.dumps({"schema": 1, "status": status}))
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("status", "age_s", "attempt", "joins"),
    [
        ("running", 0, 0, True),
        ("running", 0, 1, True),
        ("running", 500, 0, False),
        ("running", 500, 1, True),
        ("killed", 500, 1, True),
        ("killed", 0, 0, False),
        ("failed", 0, 2, True),
        ("finished", 0, 0, False),
        ("finished", 0, 1, False),
    ],
)
def test_who_comes_later_joins_what_goes_on(
    status: str, age_s: float, attempt: int, joins: bool, tmp_path: Path
) -> None:
    assert agree(tmp_path, "key", "first") == "first"
    assert agree(tmp_path, "key", "second") == "first"  # it is being made
    run(tmp_path, "first", status, age_s)
    assert (agree(tmp_path, "key", "third", attempt) == "first") == joins
    if not joins:
        assert agree(tmp_path, "key", "fourth", attempt) == "third"


def host_fields(
    host: str, offset_ns: int | None, bound_ns: int = 0, **more: object
) -> dict[str, object]:
    clock = (
        {}
        if offset_ns is None
        else {"clock": {"reference": "zero", "offset_ns": offset_ns, "bound_ns": bound_ns}}
    )
    return {"host": host, "anchor": {"wall_ns": 10**18, "monotonic_ns": 5}, **clock, **more}


def test_clocks_by_way_of_rank_zeros_host() -> None:
    """Whoever made the run: offsets to the host of rank 0 are subtracted, bounds add up."""
    offsets = clocks(
        host_fields("one", -100, 7),
        {"zero": host_fields("zero", 0), "two": host_fields("two", 900, 5)},
    )
    assert (offsets["zero"].offset_ns, offsets["zero"].bound_ns) == (100, 7)
    assert (offsets["two"].offset_ns, offsets["two"].bound_ns) == (1000, 12)


def test_without_a_meeting_wall_clocks_have_to_do() -> None:
    guest = host_fields("two", None) | {"anchor": {"wall_ns": 10**18 + 50, "monotonic_ns": 20}}
    offsets = clocks(host_fields("one", 0), {"two": guest, "damaged": {"host": "damaged"}})
    assert offsets["two"].offset_ns == 35 and offsets["two"].bound_ns is None
    assert offsets["damaged"].method == "unknown"
