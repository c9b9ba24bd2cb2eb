"""Runs that go on, or have just ended, and what their recorders say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probe.store import files
from probe.store.layout import RUN_FILE
from probe.store.live import Live, look_live
from probe.units import NS_PER_S

LINGER_S = 60.0  # final totals are shown so long, for the last scrape


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that goes on, or has just ended, with what its recorders say."""

    meta: Mapping[str, Any]  # run.json
    live: Live


Runs = Callable[[], Iterable[LiveRun]]


def live_runs(paths: Callable[[], Iterable[Path]], node: str | None = None) -> Runs:
    """Those of some run directories whose recorders say something; of one node, or all."""

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
    """Run directories in ``directory`` that have not ended."""

    def paths() -> Iterator[Path]:
        for file in sorted(directory.glob(f"*/{RUN_FILE}")):
            if any(file.parent.glob("node-*/live.json")):
                yield file.parent

    return paths


def wall_s(meta: Mapping[str, Any], monotonic_ns: int) -> float | None:
    """A monotonic instant of a run as seconds since 1970."""
    anchor = meta.get("anchor") or {}
    try:
        ahead_ns = int(anchor["wall_ns"]) - int(anchor["monotonic_ns"])
    except (KeyError, TypeError, ValueError):
        return None
    return (monotonic_ns + ahead_ns) / NS_PER_S
