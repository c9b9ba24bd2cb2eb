"""What a meter shows in its update intervals, of phases and of powers that are known.

With F(t) what a response has shown of a column's time up to t, the row of an update interval
(u₀, u₁) is F(u₁ − delay) − F(u₀ − delay). A part-time sensor's row is the time in its window,
scaled to the period: a gap in time, not a lag; where updates were missed it is several windows.
Everything is computed from the slices around the updates; no state is carried from one batch to
the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints
from ..spans import SpanSlices
from .response import Kind, Response
from .slice_signals import Levels, Occupancy, SliceSignals


class Windows(NamedTuple):
    """m windows of a part-time sensor in n intervals."""

    ends_s: Floats  # (m,)
    scale: float  # the time that each stands for over its length
    first: Ints  # (n,) place of each interval's first

    def summed(self, values: Floats) -> Floats:
        """Values of windows (…, m), scaled and summed by interval, (…, n)."""
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
        self._occupancy = Occupancy(slices, width, kept=for_many_responses)

    # -- columns --------------------------------------------------------------------

    def elapsed(self, at_s: Floats) -> Floats:
        """Seconds per column, instances per count, up to instants (m,); (m, width)."""
        return self._occupancy.integral(at_s).T

    def rows(self, ends_s: Floats, response: Response) -> Floats:
        """Rows of the intervals between successive ``ends_s`` (n + 1,); (n, width)."""
        return self._between(self._occupancy, ends_s, response).T

    def composition(self, ends_s: Floats, response: Response) -> Floats:
        """Which columns the sensor sees at instants (n,), summing to 1 a row; (n, width).

        For a part-time sensor: what enters its window less what leaves it, per second that the
        window moves, scaled as its rows are.
        """
        at_s = ends_s - response.delay_s
        now = self._occupancy.seen(at_s, response)
        if response.kind is Kind.PART_TIME:
            now -= self._occupancy.seen(at_s - response.part_s, response)
            now *= self.period_s / response.part_s
        return now.T

    # -- powers that are known ------------------------------------------------------

    def powers(self, watts: Floats) -> Levels:
        """What the slices draw, (slices,), as one signal."""
        return Levels(self._occupancy.edges_s, watts[None])

    def energies(self, powers: Levels, ends_s: Floats, response: Response) -> Floats:
        """Energy that each interval between successive ``ends_s`` (n + 1,) shows, (n,)."""
        return np.asarray(self._between(powers, ends_s, response)[0])

    def crossings(self, steps: Floats, ends_s: Floats, response: Response) -> Floats:
        """What the sensor shows of jumps in energy at the slices' begins.

        Args:
            steps: of each slice's begin, in k columns, (k, slices).

        Returns:
            (n, k) for the n intervals between successive ``ends_s``.
        """
        jumped = Levels(self._occupancy.edges_s, np.cumsum(steps, axis=1))
        at_s = ends_s - response.delay_s
        if response.kind is not Kind.PART_TIME:
            return np.diff(jumped.seen(at_s, response)).T
        windows = self.windows(ends_s, response.part_s)
        at_s = windows.ends_s - response.delay_s
        gap = jumped.seen(at_s, response) - jumped.seen(at_s - response.part_s, response)
        return windows.summed(gap).T

    # -- windows --------------------------------------------------------------------

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

    def _between(self, signals: SliceSignals, ends_s: Floats, response: Response) -> Floats:
        """What is shown of signals in each interval, (w, n)."""
        if response.kind is not Kind.PART_TIME:
            return np.diff(signals.shown(ends_s - response.delay_s, response))
        windows = self.windows(ends_s, response.part_s)
        at_s = windows.ends_s - response.delay_s
        gap = signals.shown(at_s, response) - signals.shown(at_s - response.part_s, response)
        return windows.summed(gap)
