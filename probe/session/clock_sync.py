"""Ranks of several hosts meet in the job's own store: which run is theirs, and what time is it?

No server and no connection of ours: the store is the one that ``init_process_group`` made. A host's
clock is measured as NTP does it, against the host of rank 0: the leader of the host (its local rank
0) writes a word, rank 0 answers with its time, and the answer was made between writing and reading.
Of many round trips the shortest bounds the error by half of itself.

Nothing here waits long: who does not come (a rank that is not watched) is not waited for.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

from ..clock import Clock
from ..store.layout import node_name
from .job import Job

ROUNDS = 32
_WAIT_S = 3.0
_LEAST_WAIT_S = 0.1  # for a guest, however late the others made it


def group_store(prefix: str) -> Any:
    """The job's store with names of our own; None while there is no process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    return distributed.PrefixStore(f"phasewatt/{prefix}", store)


def agreed_key(job: Job, prefix: str) -> str | None:
    """A key that rank 0 makes up for all hosts; None if there is no store, or nobody came."""
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


def meet(job: Job, run_id: str, prefix: str, clock: Clock) -> dict[str, Any] | None:
    """What this rank learns of the job: ``job`` (rank 0's run, where it has another one) and
    ``clock``; None while there is no process group. Never raises.
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


def _answer(store: Any, guests: int, run_id: str, clock: Clock) -> dict[str, Any]:
    """Rank 0's part, one guest after the other."""
    store.set("run", f"{run_id} {node_name()}")
    deadline_s = clock.monotonic_s() + _WAIT_S
    answer: dict[str, Any] = {
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
    """Wait for a key. ``get`` alone waits as long as the job's own time-out, half an hour, for a
    host that has given this one up.
    """
    store.wait([key], timedelta(seconds=max(_LEAST_WAIT_S, seconds)))


def _ask(store: Any, clock: Clock) -> dict[str, Any]:
    """A guest's part."""
    _await(store, "run", _WAIT_S)
    run_id, reference = bytes(store.get("run")).decode().split(" ")
    me = store.add("guests", 1)
    store.set(f"{me}/here", "")
    shortest, offset = 1 << 62, 0
    for turn in range(ROUNDS):
        began = clock.now_ns()
        store.set(f"{me}/ping{turn}", "")
        _await(store, f"{me}/pong{turn}", _WAIT_S)
        ended = clock.now_ns()
        there = int(store.get(f"{me}/pong{turn}"))
        if ended - began < shortest:
            shortest, offset = ended - began, there - (began + ended) // 2
    return {
        "job": run_id,
        "clock": {"reference": reference, "offset_ns": offset, "bound_ns": shortest // 2 + 1000},
    }
