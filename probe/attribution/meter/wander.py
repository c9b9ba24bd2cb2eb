"""By how much a meter's updates come early or late, beside a clock that ticks evenly."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats

_WINDOW_S = 60.0  # over which its clock is taken to tick evenly
_SHORTEST_S = 20.0
_FEWEST = 50


class Wander:
    """Collects the instants of updates; what it says does not depend on how they were cut."""

    def __init__(self) -> None:
        self._held: list[Floats] = []
        self._begin_s: float | None = None
        self._square, self._number = 0.0, 0

    def feed(self, time_s: Floats) -> None:
        """Take instants (n,) that follow those before."""
        while len(time_s):
            if self._begin_s is None:
                self._begin_s = float(time_s[0])
            inside = int(np.searchsorted(time_s, self._begin_s + _WINDOW_S))
            self._held.append(time_s[:inside])
            time_s = time_s[inside:]
            if len(time_s):
                self._square, self._number = self._with_window()
                self._held, self._begin_s = [], None

    @property
    def sd_s(self) -> float:
        """Standard deviation in s of the instants about each minute's line; 0 if unknown."""
        square, number = self._with_window()
        return (square / number) ** 0.5 if number else 0.0

    def _with_window(self) -> tuple[float, int]:
        """(sum of squares, degrees of freedom) with the instants that are held."""
        time_s = np.concatenate(self._held) if self._held else np.empty(0)
        if len(time_s) < _FEWEST or np.ptp(time_s) < _SHORTEST_S:
            return self._square, self._number
        gaps = np.diff(time_s)
        place = np.append(0.0, np.cumsum(np.maximum(1, np.round(gaps / np.median(gaps)))))
        place -= place.mean()
        off = time_s - time_s.mean()
        rest = off - float(place @ off) / float(place @ place) * place
        return self._square + float(rest @ rest), self._number + len(time_s) - 2
