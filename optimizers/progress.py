"""The line on the terminal: loss, speed, k. tqdm draws it."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_DRAW_S = 0.5


class Bar:
    """A progress bar over samples; silent where nobody looks."""

    def __init__(self, samples: int, *, quiet: bool):
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=samples, unit="sample", mininterval=_DRAW_S, smoothing=0.1)
        self._next = 0.0

    def step(self, samples: int, loss: Any, k: int) -> None:
        """A step is over; the loss is read only when the line is drawn."""
        if self._bar is None:
            return
        self._bar.update(samples)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _DRAW_S
            self._bar.set_postfix(loss=f"{float(loss):.4f}", k=k, refresh=False)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
