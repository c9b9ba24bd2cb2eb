"""Closed segments become Parquet and rollups on a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from pathlib import Path

from ..store.rollup import roll_up
from ..store.segments import seal_segment
from .log import log


class Sealer:
    """Seals what it is given, one segment at a time; a failure leaves the segment hot."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self._thread.start()

    def take(self, segments: Iterable[Path]) -> None:
        """Queue closed hot segments."""
        for path in segments:
            self._queue.put(path)

    def finish(self) -> None:
        """Seal what is queued, then return."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (path := self._queue.get()) is not None:
            try:
                sealed = seal_segment(path)
                if sealed is not None and path.name.startswith("samples-"):
                    roll_up(sealed, path.parent.parent)
            except Exception as error:
                log(f"{path} stays as it is: {error}")
