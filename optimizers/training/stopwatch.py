"""Two clocks of one training: all of it, and its steps without evaluations and snapshots."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

from .snapshot import Position


class Stopwatch:
    """Adds to ``seconds`` and ``train_seconds`` of a position, from where they stand."""

    def __init__(self, at: Position, device: str):
        self._at, self._device = at, device
        self._since = time.perf_counter()
        self._began = self._since - at.seconds

    def tick(self) -> None:
        """A step is over: what passed since the tick before is training."""
        now = time.perf_counter()
        self._at.train_seconds += now - self._since
        self._at.seconds, self._since = now - self._began, now

    def settle(self) -> None:
        """Wait for what the steps have left to the device: it is theirs."""
        if self._device == "cuda":
            torch.cuda.synchronize()
        self.tick()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is no training."""
        self.settle()
        try:
            yield
        finally:
            self._since = time.perf_counter()
            self._at.seconds = self._since - self._began
