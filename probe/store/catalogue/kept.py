"""Rows of a directory of runs, kept from one process to the next in the reader's own cache.

A file of JSON lines per directory: what it is of, then ``[name, run stamp, folder stamp, row,
complete]``.
It is replaced whole, so that no reader waits for another, not on a file server either; of two that
write at once the later one stays, and what it lacks is read from the runs again. A line that is
damaged, or is older than its run, counts for nothing. The file is its reader's alone, as runs may
be.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...cache_folder import cache_folder
from .. import files, untrusted
from .rows import RunSummary, empty_row

_VERSION = 4  # of a row's fields: rows of another one are read from the runs again
_MOST_BYTES = 1 << 30
_FORGOTTEN_S = 90 * 86400.0  # a directory that nobody listed for so long

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a run's directory; ``row`` is None for a part of a job that was merged.

    ``run`` is the (mtime in ns, size) of run.json, ``folder`` the (mtime in ns, mode) of the
    directory, which changes with its labels. ``complete``: the whole run was read for the row, or
    could not be read.
    """

    run: Stamp
    folder: Stamp
    row: RunSummary | None
    complete: bool = False


def kept_file(directory: Path) -> Path | None:
    """Where the rows of a directory are kept; None where there is no place for it."""
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:24]
    try:
        return cache_folder("catalogue") / f"runs-{name}.jsonl"
    except RuntimeError:
        return None


def read_kept(directory: Path) -> dict[str, Entry]:
    """By the directory's name, what was kept of its runs; nothing where the file is no good."""
    path = kept_file(directory)
    entries: dict[str, Entry] = {}
    fields = empty_row("", "").keys()
    try:
        if path is None or os.lstat(path).st_uid != os.geteuid():
            return {}
        lines = untrusted.read_regular(path, _MOST_BYTES, owned=False).split(b"\n")
        if json.loads(lines[0]) != _header(directory):
            return {}
    except (OSError, ValueError, IndexError, RecursionError):
        return {}
    for parsed in _parsed(lines[1:]):
        with contextlib.suppress(ValueError, TypeError, LookupError):
            name, run, folder, row, complete = parsed
            if row is None or (isinstance(row, dict) and row.keys() >= fields):
                summary = cast("RunSummary | None", row)
                entries[name] = Entry(
                    (run[0], run[1]), (folder[0], folder[1]), summary, bool(complete)
                )
    return entries


def _parsed(lines: list[bytes]) -> Iterable[Any]:
    """The values of JSON lines but for damaged ones: all at once, which takes half the time."""
    with contextlib.suppress(ValueError, RecursionError):
        values: list[Any] = json.loads(b"[%s]" % b",".join(lines))
        if len(values) == len(lines):
            return values
    return _undamaged(lines)


def _undamaged(lines: list[bytes]) -> Iterator[Any]:
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def keep(directory: Path, entries: Mapping[str, Entry]) -> None:
    """Keep these rows; where that cannot be, the next reader reads the runs."""
    path = kept_file(directory)
    if path is None:
        return
    lines: list[Any] = [_header(directory)]
    lines += [[name, e.run, e.folder, e.row, e.complete] for name, e in entries.items()]
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write_bytes(path, "\n".join(map(json.dumps, lines)).encode())
        os.chmod(path, 0o600)
        _forget(path.parent)


def _header(directory: Path) -> dict[str, object]:
    return {"phasewatt": "catalogue", "version": _VERSION, "directory": str(directory)}


def _forget(folder: Path) -> None:
    """Remove what was kept of directories that nobody has listed for long."""
    oldest_s = time.time() - _FORGOTTEN_S
    for path in folder.glob("runs-*.jsonl"):
        if path.lstat().st_mtime < oldest_s:
            path.unlink(missing_ok=True)
