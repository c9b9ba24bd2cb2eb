"""Hosts that meet in the job's store: who does not come is not waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from probe.clock import MACHINE_CLOCK
from probe.session.jobs import clock_sync
from probe.session.jobs.clock_sync import meet
from probe.session.jobs.job import Job

distributed = pytest.importorskip("torch.distributed", reason="torch is not installed")

JOB_TIMEOUT_S = 1800.0  # as where torch makes the store: who waits so long hangs


def job(rank: int) -> Job:
    return Job(key="key", rank=rank, local_rank=0, local_world_size=1, world_size=2, nodes=2)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = distributed.HashStore()
    made.set_timeout(timedelta(seconds=JOB_TIMEOUT_S))
    monkeypatch.setattr(clock_sync, "group_store", lambda prefix: made)
    monkeypatch.setattr(clock_sync, "_WAIT_S", 0.2)
    return made


def test_a_host_that_rank_zero_has_given_up_trains_on(store: Any) -> None:
    """It came late: rank 0 wrote its run, waited, and trains again."""
    store.set("run", "run host")
    learned = meet(job(1), "run", "prefix", MACHINE_CLOCK)
    assert learned is not None and "were not compared" in learned["warnings"][0]


def test_rank_zero_trains_on_when_a_host_is_lost_while_they_meet(store: Any) -> None:
    store.set("1/here", "")
    store.set("1/ping0", "")
    learned = meet(job(0), "run", "prefix", MACHINE_CLOCK)
    assert learned is not None and "did not answer" in learned["warnings"][0]
