"""Signals that are constant in slices of time, and what a kernel makes of them.

``integral`` is the time integral of such signals, ``seen`` what a sensor shows of them at an
instant, ``shown`` what it has shown up to then. All three come from running sums at the borders
of the slices and from the slice around the instant, so that an instant costs a look-up, however
many slices a kernel remembers.

Before the first slice and after the last one the signals go on as they are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from ..spans import SpanSlices
from .response import Kind, Response

_BLOCK = 8.0  # lags in a block of the running sums: exp(8) keeps nine digits of 16
_REACH = 4  # blocks before it that a block still remembers: exp(-32)


class _LagSums(NamedTuple):
    """Running sums of what slices add behind a lag, by block of time, scaled to its begin."""

    tau_s: float
    sums: Floats  # (w, n + 1) over all blocks up to each border
    offset: Floats  # (w, blocks) to subtract in a block: earlier sums, but for what is remembered
    block: Ints  # (n + 1,) of each border
    fade: Floats  # (n + 1,) from the block's begin to the border


class SliceSignals(ABC):
    """w signals over n slices that follow each other without a hole."""

    def __init__(self, edges_s: Floats):
        """Signals over the slices between successive ``edges_s``, (n + 1,)."""
        self.edges_s = edges_s
        self.seconds = np.diff(edges_s)
        self._last_lag: _LagSums | None = None

    @abstractmethod
    def weighted(self, weight: Floats) -> Floats:
        """Each signal times a weight of each slice (n,), after a zero; (w, n + 1)."""

    @abstractmethod
    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """Add to ``out`` (w, …) the signals in the slices ``place`` (…), times weights (…)."""

    def integral(self, at_s: Floats) -> Floats:
        """Integral from the first slice's begin up to instants (…); (w, …)."""
        place, into = self._place(at_s)
        out = self._integrals[:, place]
        self.add_now(out, place, into)
        return out

    def seen(self, at_s: Floats, response: Response) -> Floats:
        """What a response shows at instants (…), its delay left out; (w, …)."""
        if response.memory_s <= 0:
            place, _ = self._place(at_s)
            out = np.zeros((len(self._integrals), *place.shape))
            self.add_now(out, place, np.ones(place.shape))
            return out
        if response.kind is Kind.AVERAGE:
            window_s = response.window_s
            return (self.integral(at_s) - self.integral(at_s - window_s)) / window_s
        return self._behind_lag(at_s, response.tau_s)

    def shown(self, at_s: Floats, response: Response) -> Floats:
        """The integral of :meth:`seen` up to instants (…), settled before the first; (w, …)."""
        if response.memory_s <= 0:
            return self.integral(at_s)
        if response.kind is Kind.AVERAGE:
            window_s = response.window_s
            return (self._twice(at_s) - self._twice(at_s - window_s)) / window_s
        tau_s = response.tau_s
        return self.integral(at_s) - tau_s * self._behind_lag(at_s, tau_s)

    def _place(self, at_s: Floats) -> tuple[Ints, Floats]:
        """(slice that runs at each instant (…), seconds since it began (…))."""
        place = np.clip(np.searchsorted(self.edges_s, at_s, "right") - 1, 0, len(self.seconds) - 1)
        return place, at_s - self.edges_s[place]

    @cached_property
    def _integrals(self) -> Floats:
        """Up to each border, (w, n + 1)."""
        return self.weighted(self.seconds).cumsum(1)

    @cached_property
    def _double_integrals(self) -> Floats:
        added = self.weighted(self.seconds**2 / 2)
        added[:, 1:] += self._integrals[:, :-1] * self.seconds
        return added.cumsum(1)

    def _twice(self, at_s: Floats) -> Floats:
        """The integral of the integral, (w, …)."""
        place, into = self._place(at_s)
        out = self._double_integrals[:, place] + self._integrals[:, place] * into
        self.add_now(out, place, into * into / 2)
        return out

    def _behind_lag(self, at_s: Floats, tau_s: float) -> Floats:
        lag = self._lag(tau_s)
        place, into = self._place(at_s)
        left = np.exp(-np.maximum(into, 0.0) / tau_s)
        out = lag.sums[:, place]
        out -= lag.offset[:, lag.block[place]]
        out *= lag.fade[place] * left
        self.add_now(out, place, 1 - left)
        return out

    def _lag(self, tau_s: float) -> _LagSums:
        """The sums behind a lag; those of the last one are kept.

        A slice adds x (1 − exp(−seconds / τ)), which fades from then on. A running sum of it
        divided by its fading is exact but overflows, so that each block of time has its own scale.
        """
        if self._last_lag is None or self._last_lag.tau_s != tau_s:
            age = (self.edges_s - self.edges_s[0]) / tau_s
            number = np.floor(age / _BLOCK)
            first = np.flatnonzero(np.diff(number, prepend=-1.0))
            begin = _BLOCK * number[first]
            block = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(age))))
            grown = np.exp(age - begin[block])
            added = self.weighted(grown[1:] * -np.expm1(-self.seconds / tau_s))
            self.add_now(added[:, :1], np.zeros(1, np.int64), np.ones(1))  # settled in the first
            sums = added.cumsum(1)
            before = np.concatenate([np.zeros((len(sums), 1)), sums[:, first[1:] - 1]], axis=1)
            total = np.diff(np.concatenate([before, sums[:, -1:]], axis=1))
            for back in range(1, min(_REACH, len(first) - 1) + 1):
                before[:, back:] -= total[:, :-back] * np.exp(begin[:-back] - begin[back:])
            self._last_lag = _LagSums(tau_s, sums, before, block, 1 / grown)
        return self._last_lag


class Occupancy(SliceSignals):
    """A signal per column: 1 while a slice of it runs; per count: instances per second."""

    def __init__(self, slices: SpanSlices, width: int):
        """Of slices whose columns lie below ``width``."""
        super().__init__(np.append(slices.begin_s, slices.end_s[-1:]))
        self._slices, self._width = slices, width

    def weighted(self, weight: Floats) -> Floats:
        """See :class:`SliceSignals`."""
        out = np.zeros((self._width, len(weight) + 1))
        after = np.arange(1, len(weight) + 1)
        out[self._slices.column, after] = weight
        out[self._slices.count, after] += weight * self._slices.per_s
        return out

    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """See :class:`SliceSignals`; of instants (m,) alone."""
        instants = np.arange(len(place))
        out[self._slices.column[place], instants] += weight
        out[self._slices.count[place], instants] += weight * self._slices.per_s[place]


class Levels(SliceSignals):
    """Signals of any height."""

    def __init__(self, edges_s: Floats, heights: Floats):
        """Of heights (w, n) in the slices between ``edges_s`` (n + 1,)."""
        super().__init__(edges_s)
        self._heights = heights

    def weighted(self, weight: Floats) -> Floats:
        """See :class:`SliceSignals`."""
        out = np.zeros((len(self._heights), len(weight) + 1))
        np.multiply(self._heights, weight, out=out[:, 1:])
        return out

    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """See :class:`SliceSignals`."""
        out += self._heights[:, place] * weight
