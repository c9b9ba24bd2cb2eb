"""When a counter moved: from reads that caught a change to instants of updates.

An update lies between the last read of the old value and the first read of the new
one. A counter updates on a lattice, so a straight line through the middles of the 51
brackets around an update (25 on either side) dates it several times better than its own
bracket; the result is clipped to the bracket, in which the update certainly lies.

Not every update needs a close bracket. Where the lattice is steady, a read well between two
of its instants says what the counter was after the earlier one, and the line says when that was.

A counter that has moved at every read shows no lattice, but the reader's own schedule: it is
left to :mod:`.fast_counter`.

Streaming: an update comes out 25 updates after it happened, and what comes out does not
depend on how the reads were cut into batches. Times are seconds on the run's clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np

from ..arrays import Floats
from .fast_counter import FastCounter
from .lattice_line import Line, first_parts, fit_line, placed, sigma_of
from .updates import Change, Row, Updates

HALF = 25  # updates on either side of the one that is dated
WINDOW = 2 * HALF + 1
WIDE_S = 0.0125  # a wider bracket says nothing about the lattice
CLOSE = 0.3  # nor does one wider than this share of a known period
_WIDER = 1.6  # except where all are: so much wider than the narrowest may another be
_HOLE_PERIODS = 20  # a longer silence, or time without a close bracket, begins a new lattice
_PATIENCE = 8 * WINDOW  # changes that wait for the first fit at most
_FEWEST = 12  # close brackets that a line rests on, even from before the held ones
_AMID = 0.1  # of the period: a read this far from both updates tells between which it was
_STEADY = 0.03  # of the period: a lattice that dates better than this dates unseen updates too
_SAME = 0.75  # of the period: changes no further apart may be one update


class CounterUpdateFinder:
    """Finds the updates of a counter in its reads. Feed them in order; collect the updates."""

    exact = False

    def __init__(self, *, wrap_j: float | None = None, resolution_s: float | None = None):
        """A finder without any reads.

        Args:
            wrap_j: the value at which the counter starts again from 0; without it a
                falling counter is a reset.
            resolution_s: how old a value can be when it is read, where that is less than
                the time between two reads (RAPL: 1 ms).
        """
        self._wrap_j, self._resolution_s = wrap_j, resolution_s
        self._before: tuple[float, float, float] | None = None  # time, duration, value
        self._joules = 0.0
        self._first = True
        self._fresh = False
        self._moved = False  # at the last read
        self._fast = FastCounter()
        self._recent: deque[float] = deque(maxlen=8)  # widths of the last close ones
        self._far = 0  # changes since then
        self._unplaced: list[Change] = []  # until the first fit
        self._held: list[Change] = []
        self._index: list[int] = []  # places of the held ones on the lattice
        self._fitted = np.empty((3, 0))  # places, middles, widths of the close ones
        self._line = Line(0.0, 1.0, 0.0, math.inf)
        self._bracket_sigma = 0.0  # standard error of a time that is known by its bracket only
        self._emitted = 0  # of the held ones
        self._late_fresh = False  # of those that came late, since the last that was emitted
        self._out: list[Row] = []

    def feed(self, time_s: Floats, span_s: Floats, joules: Floats) -> Updates:
        """Take reads in order, arrays (n,): when each returned, how long it took, its value in J.

        Returns the updates that are decided by now.
        """
        for time, span, value in zip(
            time_s.tolist(), span_s.tolist(), joules.tolist(), strict=True
        ):
            before = self._before
            self._before = time, span, value
            if before is None:
                continue
            if value != before[2]:
                self._changed(before, time, span, value)
                self._moved = True
            else:
                self._fast.saw(time - before[0], moved=False)
                self._moved = False
        return self._take()

    @property
    def period_s(self) -> float:
        """Seconds between updates, or between those that were seen; 1 until that is known."""
        return self._fast.seen_every_s if self._fast.is_fast else self._line.period_s

    @property
    def common_error_s(self) -> float:
        """Standard error that all times share: how old a value is at a read is known to this."""
        return self._fast.common_error_s if self._fast.is_fast else 0.0

    @property
    def undated(self) -> bool:
        """True if no update can be dated: it moves about as often as it is read."""
        return self._fast.is_between

    def interrupt(self) -> None:
        """Count no energy for what the counter does from the last read to the next."""
        self._before = None
        self._fresh = True
        self._moved = False

    def finish(self) -> Updates:
        """Return the updates that were held back."""
        self._flush()
        return self._take()

    def _take(self) -> Updates:
        out, self._out = self._out, []
        return Updates.of(out)

    def _changed(
        self, before: tuple[float, float, float], time: float, span: float, value: float
    ) -> None:
        step = value - before[2]
        if step < 0 and self._wrap_j is not None:
            step += self._wrap_j
        if step < 0:
            self._fresh = True
            step = 0.0
        if self._first:  # it only dates the counter: what it added happened before
            self._first, self._fresh, step = False, True, 0.0
        self._joules += step
        low, high = before[0] - before[1], time
        if self._resolution_s is not None:
            low = max(low, high - span - self._resolution_s)
        close = self._resolution_s is not None or self._is_close(high - low)
        if close:
            self._recent.append(high - low)
            self._far = 0
        else:
            self._far += 1
            if self._far > _HOLE_PERIODS:  # the others have to do
                self._recent.clear()
                self._flush()
        blind = self._moved and self._resolution_s is None
        self._fast.saw(time - before[0], moved=True, close=close, blind=blind)
        fresh, self._fresh = self._fresh, False
        self._add(Change(low, high, time - span, self._joules, fresh, close))

    def _is_close(self, width: float) -> bool:
        usual = WIDE_S if not self._held else min(WIDE_S, CLOSE * self._line.period_s)
        return width <= max(usual, _WIDER * min(self._recent, default=math.inf))

    def _add(self, change: Change) -> None:
        if self._fast.is_fast:
            self._flush_lattice()
            self._date_by_read(change)
            return
        self._out += self._fast.take(0)
        if self._held:
            silence = change.middle - self._held[-1].middle
            if silence > _HOLE_PERIODS * self._line.period_s:
                self._flush()
        if not self._held:
            self._unplaced.append(change)
            if sum(c.close for c in self._unplaced) >= WINDOW or len(self._unplaced) > _PATIENCE:
                self._begin()
                self._emit(len(self._held) - HALF)
            return
        self._hold(change)
        if change.close:
            newest = [[self._index[-1]], [change.middle], [change.width]]
            others = self._fitted[:, self._fitted[0] < self._index[-1]]
            self._fitted = np.concatenate([others, newest], axis=1)
        old = len(self._held) - WINDOW
        if old > 0:
            del self._held[:old], self._index[:old]
            self._emitted -= old
        if change.close:
            within = int(np.searchsorted(self._fitted[0], self._index[0]))
            self._fitted = self._fitted[:, min(within, max(0, self._fitted.shape[1] - _FEWEST)) :]
            self._line = self._fit()
        self._emit(len(self._held) - HALF)

    def _hold(self, change: Change) -> None:
        """Give it a place; without one its energy goes to the next.

        Of two changes at one place the first was a part of an update, or one that came late.
        """
        place = self._nearest(change) if change.close else self._amid(change)
        if place is None:
            self._fresh |= change.fresh
            return
        if self._index and place == self._index[-1]:
            first = self._held.pop()
            self._index.pop()
            self._fresh |= first.fresh
            if first.close and not change.close:
                change = replace(first, joules=change.joules)
        self._held.append(replace(change, fresh=True) if self._fresh else change)
        self._index.append(place)
        self._fresh = False

    def _nearest(self, change: Change) -> int:
        start, period = self._line[:2]
        place = round((change.middle - start) / period)
        if not self._index or place > self._index[-1]:
            return place
        again = change.middle - self._held[-1].middle < _SAME * period
        return self._index[-1] + (not again)

    def _amid(self, change: Change) -> int | None:
        """The lattice's last place before a read that lies well between two of them."""
        start, period, sigma, _ = self._line
        place = math.floor((change.read - start) / period)
        margin = _AMID * period
        at = start + place * period
        clear = change.read - at >= margin and at + period - change.high >= margin
        last = self._index[-1] if self._index else place - 1
        new = place == last or (place > last and at > change.low)
        return place if clear and new and sigma <= _STEADY * period else None

    def _begin(self) -> None:
        """First fit: places on the lattice from the distances."""
        changes, self._unplaced = self._unplaced, []
        if self._fast.is_fast:
            for change in changes:
                self._date_by_read(change)
            return
        widest = max(WIDE_S, _WIDER * min(c.width for c in changes))
        some = any(c.close for c in changes)  # else the narrowest have to do
        changes = [replace(c, close=(c.close or not some) and c.width <= widest) for c in changes]
        close = np.flatnonzero([c.close for c in changes])
        middle, width = (
            np.array([getattr(changes[i], name) for i in close]) for name in ("middle", "width")
        )
        part = first_parts(middle)
        parts = close[part]
        self._fitted = placed(close[~part], middle[~part], width[~part], parts)
        self._line = self._fit()
        for number, change in enumerate(changes):
            if number in parts:
                self._fresh |= change.fresh
            else:
                self._hold(change)

    def _flush(self) -> None:
        """Date all that is held; what follows is another lattice."""
        self._flush_lattice()
        self._out += self._fast.take(0)

    def _flush_lattice(self) -> None:
        if self._unplaced:
            self._begin()
        self._emit(len(self._held))
        self._held, self._index, self._emitted = [], [], 0

    def _fit(self) -> Line:
        """The line through what is held."""
        index, middle, width = self._fitted
        self._bracket_sigma = sigma_of(width)
        return fit_line(index, middle, width)

    def _date_by_read(self, change: Change) -> None:
        fresh, self._fresh = change.fresh or self._fresh or self.undated, False
        self._fast.date(change.low, change.read, change.high, change.joules, fresh=fresh)
        self._out += self._fast.take(HALF)

    def _emit(self, until: int) -> None:
        start, period, sigma, late_s = self._line
        while self._emitted < until:
            change = self._held[self._emitted]
            time = start + period * self._index[self._emitted]
            # A far bracket says little, but its update is no further from the line than others.
            slack = change.width if change.close else float(self._fitted[2].max())
            error = min(sigma, self._bracket_sigma) if change.close else sigma
            self._emitted += 1
            if change.close and abs(change.middle - time) - change.width / 2 > late_s:
                self._late_fresh |= change.fresh  # of which moment its value is, nothing tells
                continue
            fresh, self._late_fresh = change.fresh or self._late_fresh, False
            fresh |= self.undated
            self._out.append(
                (
                    min(max(time, change.low), change.high),
                    change.joules,
                    error,
                    slack / 2,
                    self._held[-1].high,
                    fresh,
                )
            )
