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
    borders: Ints  # (b,) of slices, ascending: where the sums are known
    sums: Floats  # (w, b) over all blocks
    offset: Floats  # (w, blocks) to subtract in a block: earlier sums, but for what is remembered
    block: Ints  # (n + 1,) of each border of slices
    fade: Floats  # (n + 1,) from the block's begin to the border

    def knows(self, tau_s: float, place: Ints) -> bool:
        """Whether the sums before the slices ``place`` (…) are here."""
        if tau_s != self.tau_s:
            return False
        at = np.minimum(np.searchsorted(self.borders, place), len(self.borders) - 1)
        return bool((self.borders[at] == place).all())

    def before(self, place: Ints) -> Floats:
        """The signals behind the lag where the slices ``place`` (…) begin, (w, …)."""
        out = self.sums[:, np.searchsorted(self.borders, place)]
        out -= self.offset[:, self.block[place]]
        out *= self.fade[place]
        return out


class SliceSignals(ABC):
    """w signals over n slices that follow each other without a hole."""

    def __init__(self, edges_s: Floats, width: int, *, kept: bool):
        """``width`` signals over the slices between successive ``edges_s``, (n + 1,).

        Args:
            kept: running sums are made at all borders and kept, for many looks at them; else only
                where they are looked at, which costs less for a few (those of a moving average at
                all of them either way).
        """
        self.edges_s, self.width = edges_s, width
        self.seconds = np.diff(edges_s)
        self._kept = kept
        self._all = np.arange(len(edges_s))
        self._last_lag: _LagSums | None = None

    @abstractmethod
    def sums(self, weight: Floats, borders: Ints) -> Floats:
        """Sums of each signal times a weight of each slice (n,), up to borders (b,); (w, b).

        ``borders`` ascend, each once.
        """

    @abstractmethod
    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """Add to ``out`` (w, …) the signals in the slices ``place`` (…), times weights (…)."""

    def integral(self, at_s: Floats) -> Floats:
        """Integral from the first slice's begin up to instants (…); (w, …)."""
        place, into = self._place(at_s)
        if self._kept:
            out = self._integrals[:, place]
        else:
            borders, at = np.unique(place, return_inverse=True)
            out = self.sums(self.seconds, borders)[:, at]
        self.add_now(out, place, into)
        return out

    def seen(self, at_s: Floats, response: Response) -> Floats:
        """What a response shows at instants (…), its delay left out; (w, …)."""
        if response.memory_s <= 0:
            return self._now(self._place(at_s)[0])
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
            gap = self._double_integral(at_s) - self._double_integral(at_s - window_s)
            return gap / window_s
        tau_s = response.tau_s
        return self.integral(at_s) - tau_s * self._behind_lag(at_s, tau_s)

    def _place(self, at_s: Floats) -> tuple[Ints, Floats]:
        """(slice that runs at each instant (…), seconds since it began (…))."""
        place = np.clip(np.searchsorted(self.edges_s, at_s, "right") - 1, 0, len(self.seconds) - 1)
        return place, at_s - self.edges_s[place]

    def _now(self, place: Ints) -> Floats:
        """The signals in the slices ``place`` (…), (w, …)."""
        out = np.zeros((self.width, *place.shape))
        self.add_now(out, place, np.ones(place.shape))
        return out

    @cached_property
    def _integrals(self) -> Floats:
        """Up to each border, (w, n + 1)."""
        return self.sums(self.seconds, self._all)

    @cached_property
    def _double_integrals(self) -> Floats:
        added = self._integrals[:, :-1] * self.seconds
        out = self.sums(self.seconds**2 / 2, self._all)
        out[:, 1:] += added.cumsum(1)
        return out

    def _double_integral(self, at_s: Floats) -> Floats:
        """The integral of the integral, (w, …)."""
        place, into = self._place(at_s)
        out = self._double_integrals[:, place] + self._integrals[:, place] * into
        self.add_now(out, place, into * into / 2)
        return out

    def _behind_lag(self, at_s: Floats, tau_s: float) -> Floats:
        place, into = self._place(at_s)
        lag = self._last_lag
        if lag is None or not lag.knows(tau_s, place):
            lag = self._last_lag = self._lag(tau_s, place)
        left = np.exp(-np.maximum(into, 0.0) / tau_s)
        out = lag.before(place)
        out *= left
        self.add_now(out, place, 1 - left)
        return out

    def _lag(self, tau_s: float, place: Ints) -> _LagSums:
        """The sums behind a lag before the slices ``place`` (…), or before all if sums are kept.

        A slice adds x (1 − exp(−seconds / τ)), which fades from then on. A running sum of it
        divided by its fading is exact but overflows, so that each block of time has its own scale.
        """
        age = (self.edges_s - self.edges_s[0]) / tau_s
        number = np.floor(age / _BLOCK)
        first = np.flatnonzero(np.diff(number, prepend=-1.0))
        begin = _BLOCK * number[first]
        block = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(age))))
        grown = np.exp(age - begin[block])
        added = grown[1:] * -np.expm1(-self.seconds / tau_s)
        ends = np.append(first[1:] - 1, len(age) - 1)  # the last border of each block
        borders = self._all
        if not self._kept:
            borders = np.unique(np.concatenate([place.ravel(), ends]))
        sums = self.sums(added, borders)
        sums += self._now(self._all[:1])  # settled in the first slice
        until = sums[:, np.searchsorted(borders, ends)]
        offset = np.concatenate([np.zeros((self.width, 1)), until[:, :-1]], axis=1)
        total = until - offset
        for back in range(1, min(_REACH, len(first) - 1) + 1):
            offset[:, back:] -= total[:, :-back] * np.exp(begin[:-back] - begin[back:])
        return _LagSums(tau_s, borders, sums, offset, block, 1 / grown)


class Occupancy(SliceSignals):
    """A signal per column: 1 while a slice of it runs; per count: instances per second."""

    def __init__(self, slices: SpanSlices, width: int, *, kept: bool):
        """Of slices whose columns lie below ``width``."""
        super().__init__(np.append(slices.begin_s, slices.end_s[-1:]), width, kept=kept)
        self._slices = slices

    def sums(self, weight: Floats, borders: Ints) -> Floats:
        """See :class:`SliceSignals`."""
        slices, size = self._slices, len(borders)
        into = np.repeat(np.arange(size), np.diff(borders, prepend=0))  # border after each slice
        until = slice(len(into))
        counted = weight[until] * slices.per_s[until]
        shape = self.width * size
        if size > len(into):  # a border after each slice: no two of them share a sum
            out = np.zeros(shape)
            out[slices.column[until] * size + into] = weight[until]
            out[slices.count[until] * size + into] += counted
        else:
            out = np.asarray(
                np.bincount(slices.column[until] * size + into, weight[until], shape), np.float64
            )
            out += np.bincount(slices.count[until] * size + into, counted, shape)
        return out.reshape(self.width, size).cumsum(1)

    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """See :class:`SliceSignals`; of instants (m,) alone."""
        instants = np.arange(len(place))
        out[self._slices.column[place], instants] += weight
        out[self._slices.count[place], instants] += weight * self._slices.per_s[place]


class Levels(SliceSignals):
    """Signals of any height."""

    def __init__(self, edges_s: Floats, heights: Floats):
        """Of heights (w, n) in the slices between ``edges_s`` (n + 1,)."""
        super().__init__(edges_s, len(heights), kept=True)
        self._heights = heights

    def sums(self, weight: Floats, borders: Ints) -> Floats:
        """See :class:`SliceSignals`."""
        until = np.zeros((self.width, len(weight) + 1))
        np.cumsum(self._heights * weight, axis=1, out=until[:, 1:])
        return until if len(borders) == until.shape[1] else until[:, borders]

    def add_now(self, out: Floats, place: Ints, weight: Floats) -> None:
        """See :class:`SliceSignals`."""
        out += self._heights[:, place] * weight
