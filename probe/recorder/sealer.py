"""Closed segments become Parquet and rollups, old ones are thinned, on a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from pathlib import Path

from ..clock import MACHINE_CLOCK, Clock
from ..store.rollup import roll_up
from ..store.sealed_files import Fence, no_fence
from ..store.segments import seal_segment
from .log import log
from .upkeep.upkeep import SupersededError, Upkeep


class Sealer:
    """Seals what it is given, one segment at a time; a failure leaves the segment hot."""

    def __init__(
        self, clock: Clock = MACHINE_CLOCK, upkeep: Upkeep | None = None, fence: Fence = no_fence
    ) -> None:
        """Begin with nothing to do.

        Args:
            clock: tells when a segment was closed.
            upkeep: joins and thins what was sealed.
            fence: raises SupersededError once a newer recorder has taken over.
        """
        self._clock, self._upkeep, self._fence = clock, upkeep, fence
        self._queue: queue.SimpleQueue[tuple[Path | None, int] | None] = queue.SimpleQueue()
        self._tidying = threading.Event()  # asked for, and not done yet
        self._finishing = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self._thread.start()

    def take(self, segments: Iterable[Path]) -> None:
        """Queue closed hot segments."""
        for path in segments:
            self._queue.put((path, self._clock.now_ns()))

    def tidy(self) -> None:
        """Queue the upkeep of what was sealed, unless it waits already."""
        if self._upkeep is not None and not self._tidying.is_set():
            self._tidying.set()
            self._queue.put((None, self._clock.now_ns()))

    def finish(self) -> None:
        """Seal what is queued, then return."""
        self._finishing.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            path, now_ns = entry
            try:
                if path is not None:
                    self._seal(path, now_ns)
                elif self._upkeep is not None:
                    self._tidying.clear()
                    self._upkeep.tidy(now_ns, self._say, self._finishing.is_set)
            except SupersededError:
                return  # what is queued is the newer recorder's now
            except Exception as error:
                what = "the upkeep ended" if path is None else f"{path} stays as it is"
                self._say(f"{what}: {error}")

    def _seal(self, path: Path, closed_ns: int) -> None:
        if not path.exists():  # the upkeep was first
            return
        sealed = seal_segment(path, closed_ns, self._fence)
        if sealed is not None and path.name.startswith("samples-"):
            roll_up(sealed, path.parent.parent, self._fence)

    def _say(self, line: str) -> None:
        if line != self._said:
            self._said = line
            log(line)
