"""Tags, a note and whether a run is archived: what people add to a run after the fact.

They lie in ``labels.json`` of the run's directory, beside run.json and never in it, for the
recorder is that file's only writer::

    {"schema": 1, "tags": ["lr-sweep"], "note": "…", "archived": false, "changed": "2026-…",
     "crc32": "…"}

The file is replaced whole under a lock, so a reader sees the one or the other, and two writers that
add a tag each lose none. Only the run's owner writes it. A run without the file has no labels.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...errors import StoreError, UsageError
from .. import files, layout
from ..new_files import is_own_folder, owner_of_new_files
from ..sharing import owner_name
from ..untrusted import is_regular

MOST_NOTE_BYTES = 10_000
MOST_TAGS = 32
_SCHEMA = 1
_LOCK, _LOCK_S = ".labels.lock", 10.0
_TAG = re.compile(r"[^\W_][\w.:/=@+-]{0,39}\Z")
# Two threads of a process share its record locks, so among themselves they need one of their own.
_IN_PROCESS = threading.Lock()


@dataclass(frozen=True, slots=True)
class Labels:
    """What people said of a run; ``tags`` are in alphabetical order."""

    tags: tuple[str, ...] = ()
    note: str = ""
    archived: bool = False


def read_labels(run: Path) -> Labels:
    """The labels of a run; none where the file is missing, damaged, or of another user."""
    stored = files.read_json(run / layout.LABELS_FILE)
    if not isinstance(stored, dict):
        return Labels()
    tags, note = stored.get("tags"), stored.get("note")
    given = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return Labels(
        tuple(sorted({tag for tag in given if _TAG.match(tag)})[:MOST_TAGS]),
        _within(note) if isinstance(note, str) else "",
        stored.get("archived") is True,
    )


def change_labels(
    run: Path,
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    note: str | None = None,
    note_before: str | None = None,
    archived: bool | None = None,
) -> Labels:
    """Change some labels of a run and leave the others.

    Args:
        run: its directory.
        add: tags that it gets.
        remove: tags that it loses; those that it has not are no error.
        note: the whole new note, "" for none; None leaves it.
        note_before: the note that the writer saw; where another stands there by now, nothing is
            written, so that nobody's note is lost.
        archived: None leaves it.

    Returns:
        The labels as they are now.

    Raises:
        UsageError: a tag that is none, too many tags, a note that is too long, or another writer
            changed the note meanwhile.
        StoreError: another user's run, or one that cannot be written.
    """
    added, removed = [check_tag(tag) for tag in add], set(remove)
    if note is not None:
        note = _checked_note(note)
    if not is_regular(run / layout.RUN_FILE):
        raise StoreError(f"{run} is not a run directory: it has no {layout.RUN_FILE}")
    _check_owner(run)
    try:
        with _locked(run):
            before = read_labels(run)
            if note is not None and note_before is not None and before.note != note_before:
                raise UsageError("the note was changed meanwhile: read it again, then write yours")
            tags = tuple(sorted({*before.tags, *added} - removed))
            if len(tags) > MOST_TAGS:
                raise UsageError(f"a run has {MOST_TAGS} tags at most: remove some first")
            after = Labels(
                tags,
                before.note if note is None else note,
                before.archived if archived is None else archived,
            )
            if after != before:
                _write(run, after)
            return after
    except OSError as error:
        raise StoreError(f"cannot write to {run}: {error.strerror or error}") from None


def check_tag(tag: str) -> str:
    """The tag itself. Raises UsageError if it is none."""
    if not _TAG.match(tag):
        raise UsageError(
            f"{tag[:60]!r} is no tag: up to 40 letters, digits and . : / = @ + - _, without spaces"
        )
    return tag


def _write(run: Path, labels: Labels) -> None:
    value = {
        "schema": _SCHEMA,
        "tags": list(labels.tags),
        "note": labels.note,
        "archived": labels.archived,
        "changed": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    files.write_json(run / layout.LABELS_FILE, value, sync=True, checked=True)


def _checked_note(note: str) -> str:
    note = _printable(note.replace("\r\n", "\n")).strip()
    try:
        size = len(note.encode())
    except UnicodeEncodeError:
        raise UsageError("the note is not text") from None
    if size > MOST_NOTE_BYTES:
        raise UsageError(f"a note has {MOST_NOTE_BYTES // 1000} kB of text at most, not {size} B")
    return note


def _within(note: str) -> str:
    cut = note.encode("utf-8", "replace")[:MOST_NOTE_BYTES].decode("utf-8", "ignore")
    return _printable(cut)


def _printable(note: str) -> str:
    """Without what a terminal would obey."""
    return "".join(char for char in note if char in "\n\t" or not _is_control(char))


def _is_control(char: str) -> bool:
    return unicodedata.category(char) == "Cc"


def _check_owner(run: Path) -> None:
    """Raise StoreError unless this user owns the run; a file server may own all that he writes."""
    try:
        status = os.lstat(run)
        is_owner = is_own_folder(run, os.geteuid()) or (
            os.access(run, os.W_OK) and is_own_folder(run, owner_of_new_files(run))
        )
    except OSError as error:
        raise StoreError(f"cannot write to {run}: {error.strerror or error}") from None
    if not is_owner:
        raise StoreError(f"{run.name} belongs to {owner_name(run)}, who alone may tag it")
    if not status.st_mode & 0o200 or not os.access(run, os.W_OK):
        raise StoreError(f"{run.name} is read-only: its labels cannot be changed")


@contextlib.contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One writer of this run at a time, of this process and of all others."""
    deadline_s = time.monotonic() + _LOCK_S
    if not _IN_PROCESS.acquire(timeout=_LOCK_S):
        raise OSError(errno.EAGAIN, "another writer has kept it locked")
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(run / _LOCK, flags, 0o600)
        try:
            while True:
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if error.errno not in (errno.EACCES, errno.EAGAIN):
                        raise
                    if time.monotonic() > deadline_s:
                        raise OSError(errno.EAGAIN, "another writer has kept it locked") from None
                    time.sleep(0.002)
            yield
        finally:
            os.close(fd)
    finally:
        _IN_PROCESS.release()
