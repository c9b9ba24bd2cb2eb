"""Ranks of several hosts agree through the job's own store on their run and their clocks' offsets.

No server and no connection is added: the store is the one that ``init_process_group`` made. A
host's clock is measured as NTP does it, against the host of rank 0: local rank 0 of the host writes
a key, rank 0 answers with its time, and that time lies between writing and reading. Of many round
trips the shortest bounds the error by half of its length.

Waits are short: a rank that is not watched never answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...clock import Clock
from ...errors import StoreError
from ...store.layout import node_name
from ...store.run_fields import ProcessFields
from .job import Job, agree

ROUNDS = 32
_WAIT_S = 3.0
_LEAST_WAIT_S = 0.1  # for each guest, however long the ones before it took


def group_store(prefix: str) -> Any:
    """The job's store under a prefix of ours; None while there is no process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    return distributed.PrefixStore(f"phasewatt/{prefix}", store)


def agreed_key(job: Job, prefix: str) -> str | None:
    """A key that rank 0 chooses for all hosts; None without a store or an answer in time."""
    try:
        store = group_store(prefix)
        if store is None:
            return None
        if job.rank == 0:
            store.set("key", f"store:{os.urandom(8).hex()}")
        store.wait(["key"], timedelta(seconds=_WAIT_S))
        return bytes(store.get("key")).decode()
    except Exception:  # of any kind of store
        return None


def agreed_run_id(
    directory: Path,
    job: Job,
    number: int,
    proposal: str,
    clock: Clock,
    *,
    warn: Callable[[str], None],
) -> str:
    """The run id that the first rank of the job proposed.

    Args:
        directory: of runs.
        number: of this process's watches: each is a run of the job.
        proposal: the id that this rank would give.
        warn: hears in one line of what another user has put there.

    Raises:
        StoreError: nothing can be written there.
    """
    import hashlib  # 2 ms that only a job of several ranks needs

    job_key = (agreed_key(job, f"key{number}") if job.local_key else None) or job.key
    key = hashlib.sha256(f"{job_key}:{number}".encode()).hexdigest()[:12]
    try:
        return agree(directory, key, proposal, job.attempt, clock, warn=warn)
    except OSError as error:
        raise StoreError(f"cannot write runs to {directory}: {error.strerror}") from None


def meet(job: Job, run_id: str, prefix: str, clock: Clock) -> ProcessFields | None:
    """What this rank learns of the job; None while there is no process group. Never raises.

    Returns:
        ``job`` (the id of rank 0's run) and ``clock`` (``reference``, ``offset_ns``, ``bound_ns``);
        ``warnings`` where hosts did not answer; empty on ranks that do not take part.
    """
    try:
        store = group_store(prefix)
        if store is None:
            return None
        if job.rank == 0:
            return _answer(store, job.nodes - 1, run_id, clock)
        return _ask(store, clock) if job.local_rank == 0 else {}
    except Exception as error:
        return {"warnings": [f"the hosts' clocks were not compared: {type(error).__name__}"]}


def _answer(store: Any, guests: int, run_id: str, clock: Clock) -> ProcessFields:
    """Rank 0's part: answer one guest host after the other."""
    store.set("run", f"{run_id} {node_name()}")
    deadline_s = clock.monotonic_s() + _WAIT_S
    answer: ProcessFields = {
        "job": run_id,
        "clock": {"reference": node_name(), "offset_ns": 0, "bound_ns": 0},
    }
    for guest in range(1, guests + 1):
        try:
            _await(store, f"{guest}/here", deadline_s - clock.monotonic_s())
            for turn in range(ROUNDS):
                _await(store, f"{guest}/ping{turn}", deadline_s - clock.monotonic_s())
                store.set(f"{guest}/pong{turn}", str(clock.now_ns()))
        except Exception:
            answer["warnings"] = [
                f"only {guest} of the job's {guests + 1} hosts are watched, or one "
                "did not answer: the others' energy is not in this run"
            ]
            break
    return answer


def _await(store: Any, key: str, seconds: float) -> None:
    """Wait for a key. Without this, ``get`` waits for the job's own time-out of half an hour."""
    store.wait([key], timedelta(seconds=max(_LEAST_WAIT_S, seconds)))


def _ask(store: Any, clock: Clock) -> ProcessFields:
    """A guest host's part: measure the offset to rank 0's host."""
    _await(store, "run", _WAIT_S)
    run_id, reference = bytes(store.get("run")).decode().split(" ")
    guest = store.add("guests", 1)
    store.set(f"{guest}/here", "")
    shortest, offset = 1 << 62, 0
    for turn in range(ROUNDS):
        began = clock.now_ns()
        store.set(f"{guest}/ping{turn}", "")
        _await(store, f"{guest}/pong{turn}", _WAIT_S)
        ended = clock.now_ns()
        there = int(store.get(f"{guest}/pong{turn}"))
        if ended - began < shortest:
            shortest, offset = ended - began, there - (began + ended) // 2
    return {
        "job": run_id,
        "clock": {"reference": reference, "offset_ns": offset, "bound_ns": shortest // 2 + 1000},
    }
