"""Runs that tests only look at: recorded once a session, several at once, for they mostly sleep.

A test names what it looks at, ``@needs(RECORDING)``, and finds the folder in ``recorded_runs``. All
recordings that the session needs are made before the first of these tests, and nothing runs beside
them.
"""

from __future__ import annotations

import fcntl
import os
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest

# Of all workers together; one takes 10 to 20 % of a core, and two processes' imports at its start.
AT_ONCE = -(-6 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
FAILED = "failed.txt"


@dataclass(frozen=True)
class Recording:
    """A named way to leave a run in an empty folder."""

    name: str
    record: Callable[[Path], object] = field(compare=False)
    seconds: float = field(default=0.0, compare=False)  # about how long: the longest begin first


def needs(*recordings: Recording) -> pytest.MarkDecorator:
    """Marks a test that looks at these."""
    return pytest.mark.needs_recordings(*recordings)


def needed_by(items: Iterable[pytest.Item]) -> list[Recording]:
    """What tests look at, each once, the longest first."""
    marks = [mark for item in items for mark in item.iter_markers("needs_recordings")]
    recordings = dict.fromkeys(recording for mark in marks for recording in mark.args)
    return sorted(recordings, key=lambda recording: -recording.seconds)


class RecordedRuns:
    """All recordings of a session, in one folder that its worker processes share."""

    def __init__(self, folder: Path, recordings: list[Recording]) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._record, recordings))
        for recording in recordings:  # what other workers make
            with self._lock_of(recording) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)

    def __getitem__(self, recording: Recording) -> Path:
        """The folder of a recording; if making it failed, this test fails."""
        place = self._folder / recording.name
        assert place.exists(), f"mark this test with @needs({recording.name})"
        if (place / FAILED).exists():
            pytest.fail((place / FAILED).read_text(), pytrace=False)
        return place

    def _lock_of(self, recording: Recording) -> TextIO:
        """Held while it is made."""
        return (self._folder / f"{recording.name}.lock").open("w")

    def _record(self, recording: Recording) -> None:
        place = self._folder / recording.name
        with self._lock_of(recording) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another worker makes it: this one goes on to the next
                return
            if place.exists():
                return
            place.mkdir()
            try:
                recording.record(place)
            except Exception:
                (place / FAILED).write_text(traceback.format_exc())
