"""Several hosts begin a search in one database at the same moment."""

from __future__ import annotations

import multiprocessing
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from optimizers.search.knobs import read_knobs
from optimizers.search.store import Store, open_storage

HOSTS, ROUNDS = 4, 10
PATIENCE_S = 60.0

Suggested = tuple[int, int, str | None]  # the search, the trial's number, its mode


def _suggest(folder: Path, together: Barrier, suggested: SimpleQueue[Suggested]) -> None:
    knobs = read_knobs("", ["mode=fast,slow"], ["mode"])
    storage = open_storage(folder, _url(folder))
    stores = [Store(storage, knobs, name=f"search {attempt}") for attempt in range(ROUNDS)]
    for attempt, store in enumerate(stores):
        together.wait(PATIENCE_S)
        number, settings = store.suggest(own=True)
        suggested.put((attempt, number, settings["mode"]))


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/searches.db"


def test_no_two_hosts_begin_the_same_trial(tmp_path: Path) -> None:
    open_storage(tmp_path, _url(tmp_path))  # which makes the tables
    context = multiprocessing.get_context("fork")
    together, suggested = context.Barrier(HOSTS), context.SimpleQueue()
    hosts = [
        context.Process(target=_suggest, args=(tmp_path, together, suggested), daemon=True)
        for _ in range(HOSTS)
    ]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join(PATIENCE_S)
    assert [host.exitcode for host in hosts] == [0] * HOSTS
    assert sorted(suggested.get() for _ in range(HOSTS * ROUNDS)) == [
        (attempt, number, None) for attempt in range(ROUNDS) for number in range(HOSTS)
    ]
