"""Live runs, or runs that have just ended, with the live pages of their recorders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from probe.report.model import JsonValue
from probe.store import files
from probe.store.layout import RUN_FILE, SEATS
from probe.store.live import Live, look_live
from probe.store.run_fields import scheduler_of
from probe.units import NS_PER_S

LINGER_S = 60.0  # how long final totals stay, for the last scrape


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A live run, or one that has just ended, with the live pages of its recorders.

    ``begin_s`` is in seconds since 1970; None if the run's file does not say. So are texts empty.
    """

    id: str
    live: Live
    name: str = ""
    host: str = ""
    started: str = ""  # ISO 8601
    data: str = "unknown"
    scheduler: Mapping[str, str] | None = None
    begin_s: float | None = None


Runs = Callable[[], Iterable[LiveRun]]


def live_runs(paths: Callable[[], Iterable[Path]], node: str | None = None) -> Runs:
    """The live runs among some run directories, with the pages of one node or of all.

    A run of the simulated card is none of them: its figures would be taken for real.
    """

    def find() -> Iterator[LiveRun]:
        for path in paths():
            live = look_live(path, linger_s=LINGER_S)
            if live is not None and node is not None:
                live = Live(tuple(page for page in live.pages if page.node == node))
            if live is None or not live.pages:
                continue
            meta = files.read_json(path / RUN_FILE)
            if isinstance(meta, dict) and not meta.get("simulated"):
                yield live_run(meta, live)

    return find


def live_run(meta: Mapping[str, JsonValue], live: Live) -> LiveRun:
    """A run by the content of its run.json, which may lack anything."""
    return LiveRun(
        id=_text(meta, "id"),
        live=live,
        name=_text(meta, "name"),
        host=_text(meta, "host"),
        started=_text(meta, "started"),
        data=_text(meta, "data") or "unknown",
        scheduler=scheduler_of(meta),
        begin_s=_begin_s(meta),
    )


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


def _text(meta: Mapping[str, JsonValue], key: str) -> str:
    return str(meta.get(key) or "")


def _begin_s(meta: Mapping[str, JsonValue]) -> float | None:
    """When a run began, in seconds since 1970; None if its file does not say."""
    begin_ns, anchor = meta.get("begin_ns"), meta.get("anchor")
    if not isinstance(begin_ns, int) or not isinstance(anchor, Mapping):
        return None
    wall_ns, monotonic_ns = anchor.get("wall_ns"), anchor.get("monotonic_ns")
    if not isinstance(wall_ns, int) or not isinstance(monotonic_ns, int):
        return None
    return (begin_ns - monotonic_ns + wall_ns) / NS_PER_S
