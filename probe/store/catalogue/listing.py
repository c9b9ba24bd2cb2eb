"""The rows of a directory of runs, as they are now; what has not changed is not read again."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from ..layout import MERGED, RUN_FILE
from ..runs import is_made_id
from ..sharing import private_line
from .kept import Entry, Stamp, keep, read_kept
from .labels import read_labels
from .rows import RunSummary, private_summary, summary, with_labels

_RACY_NS = 2_000_000_000  # a folder may change again within the same tick of its clock
_KEPT_FROM = 50  # fewer rows are read as quickly from the runs
_KEEP_EVERY_S = 30.0


class Catalogue:
    """The runs of a directory. One thread at a time.

    Nothing is written into the directory, and nothing but speed depends on what is kept elsewhere.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._entries: dict[str, Entry] | None = None
        self._unkept = 0  # rows that were read, not found
        self._costly = False  # some of them took long
        self._kept_at = time.monotonic()

    def rows(self) -> list[RunSummary]:
        """A row per run, newest first; a run that cannot be read has the reason as ``problem``.

        Parts of a job that were merged are left out. Rows of runs that go on are read each time.
        """
        if self._entries is None:
            self._entries = read_kept(self.directory)
        entries: dict[str, Entry] = {}
        private: list[RunSummary] = []
        for name, path in self._folders():
            try:
                file, folder = os.lstat(f"{path}/{RUN_FILE}"), os.stat(path)
            except PermissionError:
                line = private_line(Path(path)) if is_made_id(name) else None
                if line is not None:
                    private.append(private_summary(name, line))
                continue
            except OSError:
                continue
            run_stamp = file.st_mtime_ns, file.st_size
            entries[name] = self._entry(
                path, run_stamp, (folder.st_mtime_ns, folder.st_mode), self._entries.get(name)
            )
        self._entries = entries
        rows = [entry.row for entry in entries.values() if entry.row is not None]
        rows.sort(key=lambda row: (str(row["started"] or ""), row["id"]), reverse=True)
        private.sort(key=lambda row: row["id"], reverse=True)
        return rows + private

    def complete(self, run_id: str, row: RunSummary) -> None:
        """Add to a row what only a reading of the whole run can tell.

        Args:
            run_id: of a run of which there is a row already.
            row: completed; it counts until the run changes.
        """
        entry = (self._entries or {}).get(run_id)
        if entry is not None and self._entries is not None:
            self._entries[run_id] = Entry(entry.run, entry.folder, row, complete=True)
            self._unkept += 1
            self._costly = True

    def is_complete(self, run_id: str) -> bool:
        """Whether a reading of the whole run has completed its row."""
        entry = (self._entries or {}).get(run_id)
        return entry is not None and entry.complete

    def keep(self, *, now: bool = False) -> None:
        """Keep what was read for the next process, now or when the last time is long enough ago."""
        entries = self._entries or {}
        pays = self._costly or len(entries) >= _KEPT_FROM
        due = now or time.monotonic() - self._kept_at >= _KEEP_EVERY_S or self._unkept >= _KEPT_FROM
        if self._unkept and pays and due:
            keep(self.directory, {name: e for name, e in entries.items() if _is_settled(e)})
            self._unkept, self._costly, self._kept_at = 0, False, time.monotonic()

    def _folders(self) -> list[tuple[str, str]]:
        """(name, path) of what may be a run."""
        try:
            with os.scandir(self.directory) as entries:
                return [
                    (entry.name, entry.path)
                    for entry in entries
                    if not entry.name.startswith(".") and entry.is_dir()
                ]
        except OSError:
            return []

    def _entry(self, folder_path: str, run: Stamp, folder: Stamp, before: Entry | None) -> Entry:
        if before is None or before.run != run or not _is_settled(before):
            self._unkept += 1
            path = Path(folder_path)
            row = None if (path / MERGED).exists() else summary(path)
            return Entry(run, folder, row)
        if before.folder == folder and time.time_ns() - folder[0] > _RACY_NS:
            return before  # most of very many runs: without a Path, which takes as long as a stamp
        path = Path(folder_path)
        if (path / MERGED).exists():
            return Entry(run, folder, None)
        row = before.row
        if row is None:
            return Entry(run, folder, summary(path))
        if before.folder != folder:
            self._unkept += 1
        return replace(before, folder=folder, row=with_labels(row, read_labels(path)))


def _is_settled(entry: Entry) -> bool:
    return entry.row is None or entry.row["status"] not in ("running", "unreadable")
