"""What was appended to hot segments since the last look: only what is new is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from . import untrusted
from .hot_reader import UNREADABLE, Place, whole_batches
from .segment_reader import MOST_BYTES


class Tail:
    """Follows one hot segment while its recorder writes it; a torn batch is read when whole."""

    def __init__(self, path: Path):
        self.path = path
        self._place = Place()

    def new(self) -> list[pa.RecordBatch]:
        """Whole batches that came since the last call; none if the file has vanished."""
        batches: list[pa.RecordBatch] = []
        try:
            with (
                untrusted.opened(self.path, MOST_BYTES) as file,
                pa.PythonFile(file, mode="r") as source,
            ):
                batches += whole_batches(source, self.path.stem, self._place, lambda: None)
        except UNREADABLE:
            pass  # gone
        return batches
