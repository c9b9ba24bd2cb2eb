"""A directory of runs, read once for all tabs."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from pathlib import Path

from probe.errors import UnknownRunError
from probe.report.build.list_row import completed, lacks_something, reported_fields
from probe.store.catalogue import Catalogue, RunSummary, with_live
from probe.store.layout import RUN_FILE, training_dir
from probe.store.untrusted import is_regular

from ..urls import MEMBER
from .cache import Cache
from .run import OpenRun

_FRESH_S = 0.4  # the directory is looked at again after so long
_SHARE = 0.05  # of the time that looking may take: a directory of very many runs is seen later
_LISTS = 8  # the most answers to what was asked of the list that are kept
_OPEN = 8  # the most runs that are kept open
_MOST_WAITING = 200
_LAST_LOOK_S = 5.0


class Library:
    """Runs of one directory. Safe to use from many threads."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._rows: list[RunSummary] = []
        self._times_read = 0
        self.cache = Cache(_LISTS)
        self._catalogue = Catalogue(directory)
        self._stale_at = -1.0  # monotonic seconds
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._tried: set[tuple[str, str]] = set()  # (id, status)
        self._worker: threading.Thread | None = None

    def rows(self) -> list[RunSummary]:
        """A summary of every run, live runs first, then the newest."""
        return self.numbered_rows()[1]

    def numbered_rows(self) -> tuple[int, list[RunSummary]]:
        """The same behind a number that is another one when the directory was read again."""
        with self._reading:
            began = time.monotonic()
            if began >= self._stale_at:
                self._rows = self._read()
                self._times_read += 1
                self._catalogue.keep()
                took = time.monotonic() - began
                self._stale_at = began + took + max(_FRESH_S, took / _SHARE)
            return self._times_read, self._rows

    def changed(self) -> None:
        """Somebody wrote into the directory: look again the next time."""
        with self._reading:
            self._stale_at = -1.0

    def look_into(self, rows: Iterable[RunSummary]) -> None:
        """Find out, in a thread, what only a reading of the whole run tells of these rows.

        That is the phase that takes most, and the energy and steps of a run that was killed. It
        stands in the rows as soon as it is known, and is kept.
        """
        with self._lock:
            for row in rows:
                key = row["id"], row["status"]
                if lacks_something(row) and key not in self._tried:
                    self._tried.add(key)
                    self._waiting.append(row["id"])
            if self._waiting and self._worker is None:
                self._worker = threading.Thread(target=self._look, name="look into", daemon=True)
                self._worker.start()

    def close(self) -> None:
        """Ask nothing more of the runs, and keep what is known of them."""
        with self._lock:
            self._waiting.clear()
            worker = self._worker
        if worker is not None:
            worker.join(_LAST_LOOK_S)
        if self._reading.acquire(timeout=_LAST_LOOK_S):  # a file server that hangs is left alone
            try:
                self._catalogue.keep(now=True)
            finally:
                self._reading.release()

    def open(self, run_id: str) -> OpenRun:
        """A run of this directory.

        Raises:
            UnknownRunError: there is none of that id.
            StoreError: it cannot be read.
        """
        path = self.path(run_id)
        with self._lock:
            run = self._open.get(run_id)
            if run is None:
                run = self._open[run_id] = OpenRun(path)
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(run_id)
        return run

    def path(self, run_id: str) -> Path:
        """The directory of a run. Raises UnknownRunError: there is none of that id."""
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
        rows = [with_live(self.directory, row) for row in self._catalogue.rows()]
        return sorted(rows, key=lambda row: row["status"] != "running")

    def _look(self) -> None:
        """One run after the other, until none waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._worker = None
                    return
                run_id = self._waiting.popleft()
            try:
                reported = reported_fields(self.directory / run_id)
            except Exception:  # a damaged run: its own page says what is wrong with it
                continue
            with self._reading:
                row = next((row for row in self._rows if row["id"] == run_id), None)
                if row is not None:
                    self._catalogue.complete(run_id, completed(row, reported))
                    self._stale_at = min(self._stale_at, time.monotonic() + _FRESH_S)
