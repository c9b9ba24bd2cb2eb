"""Live runs, or runs that have just ended, with the live pages of their recorders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probe.store import files
from probe.store.layout import RUN_FILE, SEATS
from probe.store.live import Live, look_live
from probe.units import NS_PER_S

LINGER_S = 60.0  # how long final totals stay, for the last scrape


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A live run, or one that has just ended, with the live pages of its recorders."""

    meta: Mapping[str, Any]  # run.json
    live: Live


Runs = Callable[[], Iterable[LiveRun]]


def live_runs(paths: Callable[[], Iterable[Path]], node: str | None = None) -> Runs:
    """The live runs among some run directories, with the pages of one node or of all."""

    def find() -> Iterator[LiveRun]:
        for path in paths():
            live = look_live(path, linger_s=LINGER_S)
            if live is not None and node is not None:
                live = Live(tuple(page for page in live.pages if page.node == node))
            if live is None or not live.pages:
                continue
            meta = files.read_json(path / RUN_FILE)
            if isinstance(meta, dict):
                yield LiveRun(meta, live)

    return find


def runs_below(directory: Path) -> Callable[[], Iterable[Path]]:
    """Run directories in ``directory`` that have a live page."""

    def paths() -> Iterator[Path]:
        for file in sorted(directory.glob(f"*/{RUN_FILE}")):
            if any(file.parent.glob("node-*/live.json")):
                yield file.parent

    return paths


def which_rank(seat: int) -> dict[str, int]:
    """A rank of a live page as labels; of a group's trainings after the first, also which one."""
    before, rank = divmod(seat, SEATS)
    return {"rank": rank} | ({"training": before + 1} if before else {})


def began_s(meta: Mapping[str, Any]) -> float | None:
    """When a run began, in seconds since 1970; None if its file does not say."""
    begin_ns = meta.get("begin_ns")
    return None if begin_ns is None else wall_s(meta, int(begin_ns))


def wall_s(meta: Mapping[str, Any], monotonic_ns: int) -> float | None:
    """A monotonic instant of a run as seconds since 1970."""
    anchor = meta.get("anchor") or {}
    try:
        ahead_ns = int(anchor["wall_ns"]) - int(anchor["monotonic_ns"])
    except (KeyError, TypeError, ValueError):
        return None
    return (monotonic_ns + ahead_ns) / NS_PER_S
