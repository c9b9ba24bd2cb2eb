"""What a sensor shows of power that is constant in slices of time.

With F(t) what a response has shown of a column's time up to t, the row of an update interval
(u₀, u₁) is F(u₁) − F(u₀). F is what was used up to t − delay less what is *withheld*: used but
not shown yet, a sum over the slices that the kernel still remembers. A part-time sensor's row is
the time in its window, scaled to the period: a gap in time, not a lag; where updates were missed
it is several windows. Everything is computed
from the slices around the updates; no state is carried from one batch to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from ..regression.iir_filter import fading
from ..spans import SpanSlices
from .response import Kind, Response

_MANY = 300  # slices that a kernel remembers: phases of some ms, and a long lag
_DENSE = 2  # as many looks at each slice cost more than one pass over all

_Summed = Callable[[Ints, Floats, Ints, int], Floats]
"""(slices (k,), weight of each, row of each, number of rows) → sums by row, (rows, w)."""


class _Recent(NamedTuple):
    """The k slices before each of m instants that a kernel remembers."""

    slice: Ints  # (m, k) which, the newest first
    age_s: Floats  # (m, k + 1) how long before the instant their borders were, the newest first


class Windows(NamedTuple):
    """m windows of a part-time sensor in n intervals."""

    ends_s: Floats  # (m,)
    scale: float  # the time that each stands for over its length
    first: Ints  # (n,) place of each interval's first

    def summed(self, values: Floats) -> Floats:
        """Values of windows (…, m) or (m, width), scaled and summed by interval."""
        if values.ndim == 2 and len(values) == len(self.ends_s):
            return np.asarray(self.scale * np.add.reduceat(values, self.first, axis=0))
        return np.asarray(self.scale * np.add.reduceat(values, self.first, axis=-1))


class ShownTime:
    """Slices that follow each other without a hole, as a sensor's response shows them."""

    def __init__(
        self, slices: SpanSlices, width: int, period_s: float, *, for_many_responses: bool = False
    ):
        """Slices whose columns lie below ``width``, of a meter that updates every ``period_s``.

        For many responses, sums over the slices are made once and kept.
        """
        self.slices, self.width, self.period_s = slices, width, period_s
        self.edges_s = np.append(slices.begin_s, slices.end_s[-1:])
        self.seconds = np.diff(self.edges_s)
        self._spent = self._spent_before_each() if for_many_responses else None

    # -- columns --------------------------------------------------------------------

    def elapsed(self, at_s: Floats) -> Floats:
        """Seconds per column, instances per count, up to instants (m,); (m, width)."""
        place, into = self._place(at_s)
        out = self._spent_before(place) if self._spent is None else self._spent[place]
        rows = np.arange(len(place))
        out[rows, self.slices.column[place]] += into
        out[rows, self.slices.count[place]] += into * self.slices.per_s[place]
        return out

    def rows(self, ends_s: Floats, response: Response) -> Floats:
        """Rows of the intervals between successive ``ends_s`` (n + 1,); (n, width)."""
        if response.kind is Kind.PART_TIME:
            windows = self.windows(ends_s, response.part_s)
            at = windows.ends_s - response.delay_s
            gap = self._shown(at, response) - self._shown(at - response.part_s, response)
            return windows.summed(gap)
        return np.diff(self._shown(ends_s - response.delay_s, response), axis=0)

    def windows(self, ends_s: Floats, part_s: float) -> Windows:
        """The windows of a part-time sensor in the intervals between successive ``ends_s``.

        Each stands for one period. That is known better than how long single intervals are dated.
        """
        length = np.diff(ends_s)
        number = np.maximum(1, np.round(length / self.period_s)).astype(np.int64)
        first = np.append(0, np.cumsum(number)[:-1])
        back = np.repeat(first + number - 1, number) - np.arange(int(number.sum()))
        step = np.repeat(length / number, number)
        return Windows(np.repeat(ends_s[1:], number) - back * step, self.period_s / part_s, first)

    def composition(self, ends_s: Floats, response: Response) -> Floats:
        """Which columns the sensor sees at instants (n,), summing to 1 a row; (n, width).

        For a part-time sensor: what enters its window less what leaves it, per second that the
        window moves, scaled as its rows are.
        """
        now = self._mixture(ends_s - response.delay_s, response)
        if response.kind is not Kind.PART_TIME:
            return now
        before = self._mixture(ends_s - response.delay_s - response.part_s, response)
        return np.asarray((now - before) * (self.period_s / response.part_s))

    def _shown(self, at_s: Floats, response: Response) -> Floats:
        shown = self.elapsed(at_s)
        if response.memory_s > 0:
            if self._is_long(at_s, response):
                return np.asarray(shown - self._lagging(at_s, response, self._by_column))
            recent = self._remembered(at_s, response)
            held = np.diff(response.withheld(recent.age_s))
            rows = np.repeat(np.arange(len(held)), held.shape[1])
            shown -= self._by_column(recent.slice.ravel(), held.ravel(), rows, len(held))
        return shown

    def _is_long(self, at_s: Floats, response: Response) -> bool:
        """Whether the instants' memories overlap so much that each slice is better seen once."""
        _, number = self._reach(at_s, response)
        lag = response.kind is not Kind.AVERAGE
        return lag and number > _MANY and number * len(at_s) > _DENSE * len(self.seconds)

    def _lagging(self, at_s: Floats, response: Response, summed: _Summed) -> Floats:
        """What a lag does not show yet at instants (m,), as ``summed`` adds it up; (m, w).

        What it withholds at one border of slices is what it withheld at an earlier border,
        faded, and what the slices between them add.
        """
        (place, number), tau_s = self._reach(at_s, response), response.tau_s
        oldest = np.maximum(place + 1 - number, 0)
        # From the border after the oldest slice on, all slices count in full.
        since = np.minimum(oldest + 1, place)
        borders, of_border = np.unique(np.concatenate([since, place]), return_inverse=True)
        first, last = int(borders[0]), int(borders[-1])
        which = np.arange(first, last)
        group = np.repeat(np.arange(1, len(borders)), np.diff(borders))
        age_s = self.edges_s[borders[group]] - self.edges_s[which + 1]
        added = tau_s * np.exp(-age_s / tau_s) * -np.expm1(-self.seconds[which] / tau_s)
        table = summed(which, added, group, len(borders))
        log_decay = np.diff(self.edges_s[borders], prepend=self.edges_s[first]) / -tau_s
        held = fading(log_decay, table, np.zeros(table.shape[1]))
        at_since, at_place = held[of_border[: len(at_s)]], held[of_border[len(at_s) :]]
        rows = np.arange(len(at_s))
        left = np.exp(-np.maximum(at_s - self.edges_s[place], 0.0) / tau_s)
        old = np.where(place > oldest, np.exp(-(at_s - self.edges_s[since]) / tau_s), 0.0)
        out = left[:, None] * at_place - old[:, None] * at_since
        out += summed(place, tau_s * np.where(place > oldest, 1 - left, 1.0), rows, len(rows))
        # The meter had settled in what ran before: the oldest slice stands for all before it.
        return np.asarray(out + summed(oldest, tau_s * old, rows, len(rows)))

    def _mixture(self, at_s: Floats, response: Response) -> Floats:
        if response.memory_s <= 0:
            place, _ = self._place(at_s)
            rows = np.arange(len(place))
            return self._by_column(place, np.ones(len(place)), rows, len(place))
        recent = self._remembered(at_s, response)
        seen = -np.diff(response.unseen(recent.age_s))
        rows = np.repeat(np.arange(len(seen)), seen.shape[1])
        return self._by_column(recent.slice.ravel(), seen.ravel(), rows, len(seen))

    def _by_column(self, which: Ints, weight: Floats, row: Ints, rows: int) -> Floats:
        """Weights (k,) of slices, summed by row, column and count; (rows, width)."""
        flat, size = row * self.width, rows * self.width
        table = np.bincount(flat + self.slices.column[which], weight, size)
        table += np.bincount(
            flat + self.slices.count[which], weight * self.slices.per_s[which], size
        )
        return np.asarray(table, np.float64).reshape(-1, self.width)

    # -- powers that are known ------------------------------------------------------

    def energies(self, watts: Floats, ends_s: Floats, response: Response) -> Floats:
        """Energy that each interval shows if the slices draw ``watts`` (slices,); (n,)."""
        if response.kind is Kind.PART_TIME:
            windows = self.windows(ends_s, response.part_s)
            at = windows.ends_s - response.delay_s
            ends, begins = self.energy_until(watts, np.stack([at, at - response.part_s]), response)
            return windows.summed(ends - begins)
        return np.diff(self.energy_until(watts, ends_s - response.delay_s, response))

    def energy_until(self, watts: Floats, at_s: Floats, response: Response) -> Floats:
        """Energy that has passed a response's kernel by instants (…), its delay left out; (…)."""
        energy = np.append(0.0, np.cumsum(watts * self.seconds))
        flat = at_s.ravel()
        place, into = self._place(flat)
        out = energy[place] + watts[place] * into
        if response.memory_s > 0 and not self._is_long(flat, response):
            recent = self._remembered(flat, response)
            held = np.diff(response.withheld(recent.age_s))
            out -= np.einsum("mk,mk->m", held, watts[recent.slice])
        elif response.memory_s > 0:

            def summed(which: Ints, weight: Floats, row: Ints, rows: int) -> Floats:
                table = np.bincount(row, weight * watts[which], rows)
                return np.asarray(table, np.float64)[:, None]

            out -= self._lagging(flat, response, summed)[:, 0]
        return np.asarray(out).reshape(at_s.shape)

    def crossings(self, steps: Floats, ends_s: Floats, response: Response) -> Floats:
        """What the sensor shows of jumps in energy at the slices' begins.

        Args:
            steps: of each slice's begin, in k columns, (slices, k).

        Returns:
            (n, k) for the n intervals between successive ``ends_s``.
        """
        total = np.cumsum(steps, axis=0)

        def shown(at_s: Floats) -> Floats:
            place, _ = self._place(at_s)
            out = total[place]
            if response.memory_s > 0:
                recent = self._remembered(at_s, response)
                weight = response.unseen(recent.age_s[:, 1:])
                out = out - np.matmul(weight[:, None], steps[recent.slice])[:, 0]
            return np.asarray(out)

        if response.kind is Kind.PART_TIME:
            windows = self.windows(ends_s, response.part_s)
            at = windows.ends_s - response.delay_s
            return windows.summed(shown(at) - shown(at - response.part_s))
        return np.diff(shown(ends_s - response.delay_s), axis=0)

    # -- sums over slices -----------------------------------------------------------

    def _spent_before_each(self) -> Floats:
        """Seconds per column, instances per count, before each slice and at the end; (n + 1, w)."""
        number = len(self.slices)
        spent = np.zeros((self.width, number + 1))  # along memory: half the cost of the sums
        after = np.arange(1, number + 1)
        spent[self.slices.column, after] = self.seconds
        spent[self.slices.count, after] += self.seconds * self.slices.per_s
        return spent.cumsum(1).T

    def _spent_before(self, place: Ints) -> Floats:
        """The same before the slices ``place`` (m,) alone, which costs less; (m, w)."""
        borders, of_border = np.unique(place, return_inverse=True)
        which = np.arange(borders[-1] if len(borders) else 0)
        part = np.searchsorted(borders, which, "right")
        parts = self._by_column(which, self.seconds[which], part, len(borders))
        return np.asarray(parts.cumsum(0)[of_border])

    # -- slices around instants -----------------------------------------------------

    def _place(self, at_s: Floats) -> tuple[Ints, Floats]:
        """(slice that runs at each instant (m,), seconds since it began (m,))."""
        place = np.clip(np.searchsorted(self.edges_s, at_s, "right") - 1, 0, len(self.seconds) - 1)
        return place, at_s - self.edges_s[place]

    def _reach(self, at_s: Floats, response: Response) -> tuple[Ints, int]:
        """(slice that runs at each instant (m,), how many slices a kernel remembers at most)."""
        place, _ = self._place(at_s)
        oldest = np.searchsorted(self.edges_s, at_s - response.memory_s, "right") - 1
        return place, int((place - np.clip(oldest, 0, None)).max(initial=0)) + 1

    def _remembered(self, at_s: Floats, response: Response) -> _Recent:
        place, number = self._reach(at_s, response)
        border = place[:, None] + 1 - np.arange(number + 1)
        age = at_s[:, None] - self.edges_s[np.maximum(border, 0)]
        age[:, 0] = 0.0
        # The meter had settled in what ran before: the oldest slice stands for all before it.
        age[:, -1] = np.inf
        age[border <= 0] = np.inf
        return _Recent(np.maximum(border[:, 1:], 0), age)
