"""Meters whose readings are exact in time: means over known windows, or totals up to a call.

No lattice is needed. A GPU performance monitor (nvmlGpmMetricsGet) says what the mean was
between two samples that we took; nvmlDeviceGetViolationStatus how long power was capped up
to now. Both become what a counter gives: the integral at known instants.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Floats
from .updates import Updates

_LONG = 1.6  # windows; a longer one has lost a read, and what it means is not known
_LEAST_SIGMA_S = 1e-4
_AHEAD_S = 2.5  # of spans, to see how long a phase usually is before it gets its columns


class WindowUpdateFinder:
    """Makes updates of readings whose windows are known. Feed them in order."""

    exact = True
    common_error_s = 0.0
    undated = False

    def __init__(self, window_s: float | None = None):
        """A finder without any reads.

        Args:
            window_s: usual length of the window that a reading is the mean over, which begins
                at the read before; None: readings are totals.
        """
        self._window_s = window_s
        self.period_s = window_s or math.inf
        self._before: float | None = None
        self._total = 0.0
        self._level: float | None = None  # the last total that was read
        self._fresh = True

    def feed(self, time_s: Floats, span_s: Floats, value: Floats) -> Updates:
        """Take reads in order, arrays (n,): when each returned, how long it took, its value."""
        if not len(time_s):
            return Updates.of([])
        at = time_s - span_s / 2
        if self._window_s is not None:
            length = np.diff(at, prepend=at[0] if self._before is None else self._before)
            fresh = length > _LONG * self._window_s
            added = np.where(fresh, 0.0, value * length)
        else:
            added = np.diff(value, prepend=value[0] if self._level is None else self._level)
            fresh = added < 0  # it started anew
            added = np.maximum(added, 0.0)
            self._level = float(value[-1])
        fresh[0] |= self._fresh
        if self._fresh:
            added[0] = 0.0
        self._fresh = False
        total = self._total + np.cumsum(added)
        self._before, self._total = float(at[-1]), float(total[-1])
        sigma = np.maximum(span_s / math.sqrt(12), _LEAST_SIGMA_S)
        return Updates(at, total, sigma, span_s / 2, time_s + _AHEAD_S, fresh)

    def interrupt(self) -> None:
        """Count nothing for what lies between the last read and the next."""
        self._fresh = True

    def finish(self) -> Updates:
        """Return no updates: none is held back."""
        return Updates.of([])
