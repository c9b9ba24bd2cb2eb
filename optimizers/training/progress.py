"""The line on the terminal: loss, speed, k, watts and joules per sample. tqdm draws it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from probe.store.live import Live

_DRAW_S = 1.0  # as often as the recorder renews the energy


class Bar:
    """A progress bar over samples; silent where stderr is no terminal."""

    def __init__(self, samples: int, live: Callable[[], Live | None], *, quiet: bool):
        """``live`` returns what the recorder knows of the run, its energy so far among it."""
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=samples, unit="sample", mininterval=_DRAW_S, smoothing=0.1)
        self._live = live
        self._next = 0.0
        self._since: tuple[float, int] | None = (
            None  # joules and samples when energy was first read
        )
        self._samples = 0

    def step(self, samples: int, loss: Any, k: int) -> None:
        """A step is over; the loss is read only when the line is drawn."""
        if self._bar is None:
            return
        self._bar.update(samples)
        self._samples += samples
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _DRAW_S
            self._bar.set_postfix(loss=f"{float(loss):.4f}", k=k, refresh=False, **self._energy())

    def _energy(self) -> dict[str, str]:
        """Watts and joules per sample; empty where no meter measures energy."""
        live = self._live()
        if live is None or (joules := live.energy_j()) is None:
            return {}
        shown: dict[str, str] = {}
        if (watts := live.power_w()) is not None:
            shown["W"] = f"{watts:.0f}"
        if self._since is None:
            self._since = joules, self._samples
        samples = self._samples - self._since[1]
        if samples > 0 and joules > self._since[0]:
            shown["J/sample"] = f"{(joules - self._since[0]) / samples:.3g}"
        return shown

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
