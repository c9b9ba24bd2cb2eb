"""A directory of runs, read once for all tabs."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path

from probe.errors import UnknownRunError
from probe.store.catalogue import RunSummary, private_summaries, summary
from probe.store.layout import RUN_FILE, training_dir
from probe.store.live import read_live
from probe.store.untrusted import is_regular

from ..urls import MEMBER
from .run import OpenRun

_FRESH_S = 0.4  # summaries are read again after so long
_OPEN = 8  # the most runs that are kept open
_Stamp = tuple[int, int]


class Library:
    """Runs of one directory. Safe to use from many threads."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._lock = threading.Lock()
        self._rows: list[RunSummary] = []
        self._summaries: dict[str, tuple[_Stamp, RunSummary]] = {}
        self._read_at = -_FRESH_S
        self._open: OrderedDict[str, OpenRun] = OrderedDict()

    def rows(self) -> list[RunSummary]:
        """A summary of every run, live runs first, then the newest."""
        with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_S:
                self._rows = self._read()
                self._read_at = time.monotonic()
            return self._rows

    def open(self, run_id: str) -> OpenRun:
        """A run of this directory.

        Raises:
            UnknownRunError: there is none of that id.
            StoreError: it cannot be read.
        """
        path = self._path(run_id)
        with self._lock:
            run = self._open.get(run_id)
            if run is None:
                run = self._open[run_id] = OpenRun(path)
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(run_id)
        return run

    def _path(self, run_id: str) -> Path:
        whole, _, number = run_id.partition(MEMBER)
        path = self.directory / whole
        plain = run_id and not run_id.startswith(".") and "\0" not in run_id
        plain = plain and path.parent == self.directory
        if number:
            plain = plain and number.isdecimal() and len(number) < 7
            path = training_dir(path, int(number)) if plain else path
        if not plain or not is_regular(path / RUN_FILE):
            with self._lock:
                self._open.pop(run_id, None)
            raise UnknownRunError(
                "there is no such run here: it was deleted, or the address is wrong"
            )
        return path

    def _read(self) -> list[RunSummary]:
        summaries: dict[str, tuple[_Stamp, RunSummary]] = {}
        rows: list[RunSummary] = []
        for path in (file.parent for file in self.directory.glob(f"*/{RUN_FILE}")):
            stamp = _stamp(path / RUN_FILE)
            before = self._summaries.get(path.name)
            row = before[1] if before is not None and before[0] == stamp else None
            if row is None or row["status"] == "running":
                row = _with_live(path, summary(path))
            summaries[path.name] = stamp, row
            rows.append(row)
        self._summaries = summaries
        rows += private_summaries(self.directory)
        rows.sort(key=lambda row: (str(row["started"] or ""), row["id"]), reverse=True)
        return sorted(rows, key=lambda row: row["status"] != "running")


def _with_live(path: Path, row: RunSummary) -> RunSummary:
    live = read_live(path) if row["status"] == "running" else None
    if live is None or row.get("simulated"):
        return row
    return row | {
        "energy_j": live.energy_j(),
        "modelled_energy_j": live.modelled_energy_j(),
        "steps": max(page.steps for page in live.pages),
        "power_w": live.power_w(),
    }


def _stamp(path: Path) -> _Stamp:
    try:
        file = path.stat()
    except OSError:
        return 0, 0
    return file.st_mtime_ns, file.st_size
