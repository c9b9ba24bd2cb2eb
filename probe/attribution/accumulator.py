"""The estimator's streaming half: reads and spans in, block statistics out.

    reads ──> Meter ────> updates ─┐
                                   ├─> Lane (one per lag and offset) ──> Innovations ──> Blocks
    spans ──> Columns, slices ─────┘

The same class runs in the recorder, batch by batch, and over a stored run at once; what it
gives does not depend on how the data were cut. :mod:`solve` turns :class:`Statistics` into
joules. An interval between two updates that lies wholly inside a phase of seconds (start-up,
an evaluation) needs no regression: its energy is that phase's. The others are *mixed*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .meter.update_times import Lattice, Updates
from .regression.blocks import DIRECT_J, DIRECT_S, LINES, MIXED_J, MIXED_S, Blocks, Innovations
from .regression.columns import MIXED, UNATTRIBUTED, slices
from .regression.design import Lane, Slices, Spans, cut
from .regression.lag import EXACT_GRAIN_S, GAINS, Kernel, choose_kernels
from .regression.statistics import Candidate, Statistics

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BINS = 20  # of the position of an update in a phase's cycle
_SETTLED = 5.0  # lags after which a phase's power has arrived
_BLIND_UPDATES = 400  # seen before lag and offset are chosen
_BLIND_S = 45.0
_LONG_S = 2.0
_GUARD_GAIN = 0.25
_FINE_S = 0.03  # period of a meter that has data enough for the shortest slices
_REACH_S = 0.05  # an update needs no span that begins later than this after it
_MOST_WAITING = 20_000  # updates without spans (a phase of many minutes)


class Meter(Protocol):
    """Turns the reads of one meter into dated updates; ``exact`` if no time is inferred."""

    exact: bool

    @property
    def period_s(self) -> float:
        """From one update to the next, as far as is known; long before."""
        ...

    def feed(self, time_s: Floats, span_s: Floats, values: Floats, /) -> Updates:
        """Reads in order; the updates that are decided."""
        ...

    def interrupt(self) -> None:
        """What lies between the last read and the next is not known."""
        ...

    def finish(self) -> Updates:
        """The updates that were held back."""
        ...


class Accumulator:
    """Feed reads and spans as they come, each in order; call :meth:`finish` at the end."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        meter: Meter | None = None,
        *,
        begin_s: float = -np.inf,
        seed: int = 0,
    ):
        """
        Args:
            kernel: the sensor's lag and clock offset; None: they are inferred from the
                first part of the run.
            meter: makes dated updates of what is read; None: a counter, see :class:`Lattice`.
            begin_s: of the run; what the counter did before is not the run's.
            seed: of the timing guard's noise.
        """
        self.statistics = Statistics()
        self._kernel = kernel
        self._begin_s = begin_s
        self._meter: Meter = meter or Lattice()
        self._noise = np.random.default_rng(seed)
        self._updates = Updates.of([])  # dated, not yet used
        self._spans = Spans.empty()  # filled, from before the last used update on
        self._until_s = -np.inf  # spans are known up to here
        self._last: Updates | None = None  # the last used update, alone
        self._ended = False
        self._lanes: list[tuple[Lane, Innovations, list[Candidate]]] = []
        self._counted_s = -np.inf  # spans that end by then are in the moments
        self.resumed = False
        self._every = 1
        self._seen = 0

    def resume(self, statistics: Statistics) -> None:
        """Go on from statistics that another one gathered; what lies between is not counted."""
        self.statistics, self.resumed = statistics, True
        lanes: dict[tuple[float, float, float], list[Candidate]] = {}
        for candidate in statistics.candidates:
            key = candidate.tau_s, candidate.offset_s, candidate.disturb
            lanes.setdefault(key, []).append(candidate)
        width = statistics.columns.width
        self._lanes = [
            (Lane(*key), Innovations(np.array([c.gain for c in candidates]), width), candidates)
            for key, candidates in lanes.items()
        ]

    # -- what comes in ---------------------------------------------------------------

    def feed_reads(self, time_s: Floats, span_s: Floats, joules: Floats) -> None:
        """Reads of the counter: when each returned, how long it took, its value in J."""
        if len(time_s):
            self._take(self._meter.feed(time_s, span_s, joules))

    def interrupt(self) -> None:
        """What the counter does between the last read and the next is not energy."""
        self._meter.interrupt()

    def feed_spans(self, spans: Spans) -> None:
        """Phase instances that follow those before, complete ones only."""
        if len(spans):
            self._spans = self._spans.append(spans.filled().reaching_from(self._spans))
            self._until_s = float(spans.end_s[-1])

    def thin(self) -> int:
        """Use half as many updates from now on, each row twice as long; returns one in how many."""
        self._every *= 2
        return self._every

    def finish(self, end_s: float = np.inf) -> Statistics:
        """Use all that is left up to the run's end; no span follows."""
        self._take(self._meter.finish())
        self._updates = self._updates.take(self._updates.time_s <= end_s)
        self._ended = True
        self._until_s = np.inf
        self.advance()
        self._count_moments(np.inf)
        return self.statistics

    def _take(self, updates: Updates) -> None:
        updates = updates.take(updates.time_s >= self._begin_s)
        if self._every > 1:
            updates = self._thinned(updates)
        if len(updates):
            self._updates = Updates.concat([self._updates, updates])
            excess = len(self._updates) - _MOST_WAITING
            if excess > 0:
                self._updates = self._updates.take(slice(excess, None))
                self._updates.fresh[0] = True
                self.statistics.skipped += excess

    def _thinned(self, updates: Updates) -> Updates:
        """Every n-th update; what happened since the one before must not be lost with it."""
        place = np.arange(self._seen, self._seen + len(updates))
        self._seen += len(updates)
        return updates.take((place % self._every == 0) | updates.fresh)

    # -- what is made of it ----------------------------------------------------------

    def advance(self) -> None:
        """Use what can be used."""
        updates = self._updates
        if not self._ended:
            ready = int(np.searchsorted(updates.horizon_s, self._until_s, "left"))
            updates = updates.take(slice(0, ready))
        if not len(updates):
            return
        if self._last is None:
            self._surround(updates)
        self._cover(updates)
        if not self._lanes and not self._begin(updates):
            return
        self._updates = self._updates.take(slice(len(updates), None))
        self._use(updates)

    def _begin(self, updates: Updates) -> bool:
        """Choose the candidates; False if more must be seen first."""
        kernel = self._kernel
        if kernel is None:
            # Up to a place that does not depend on how the data were cut.
            late = int(np.searchsorted(updates.time_s, updates.time_s[0] + _BLIND_S)) + 1
            number = min(_BLIND_UPDATES, late)
            if len(updates) < number and not self._ended:
                return False
            updates = updates.take(slice(0, number))
        statistics = self.statistics
        gains: tuple[float, ...] = GAINS
        if kernel is not None:
            kernels = [kernel]
        else:
            statistics.unsure_kernel = self._meter.exact
            kernels, gains = choose_kernels(
                updates,
                self._allocate(updates),
                statistics.columns,
                self._pure(updates, updates),
                *((EXACT_GRAIN_S,) if self._meter.exact else ()),
            )
        for place, candidate in enumerate(kernels):
            self._open(candidate, 0.0, gains[:1] if place else gains)
        guard = gains[0] if kernel is None else _GUARD_GAIN
        if not self._meter.exact:
            for disturb in (1.0, -1.0):  # opposite noise: what is odd in it cancels in their mean
                self._open(kernels[0], disturb, (guard,))
        return True

    def _open(self, kernel: Kernel, disturb: float, gains: Sequence[float]) -> None:
        width = self.statistics.columns.width
        lane = Lane(kernel.tau_s, kernel.offset_s, disturb)
        candidates = [
            Candidate(kernel.tau_s, kernel.offset_s, gain, disturb, Blocks(width)) for gain in gains
        ]
        self.statistics.candidates += candidates
        self._lanes.append((lane, Innovations(np.array(gains), width), candidates))

    def _surround(self, updates: Updates) -> None:
        """Spans from before the first update; the time before the first span is nobody's."""
        begin = float(updates.time_s[0]) - 1.0
        spans = self._spans
        if not len(spans) or spans.begin_s[0] > begin:
            first = float(spans.begin_s[0]) if len(spans) else begin
            before = Spans(np.array([begin]), np.array([first]), np.array([UNATTRIBUTED]))
            if first > begin:
                self._spans = before.append(spans)

    def _use(self, updates: Updates) -> None:
        pieces = self._allocate(updates)
        statistics = self.statistics
        last = self._last
        if last is None and not self.resumed:
            statistics.begin_s = float(updates.time_s[0])
        joules = np.diff(updates.joules, prepend=last.joules if last is not None else np.nan)
        fresh = updates.fresh.copy()
        if last is None:
            fresh[0] = True
        pure = self._pure(updates, Updates.concat([last, updates]) if last else updates)
        noise = updates.sigma_s * self._noise.standard_normal(len(updates))
        usable = ~fresh & (pure == MIXED)
        skip = 1 if last is None else 0  # the first instant ends no interval
        width = statistics.columns.width
        for number, (lane, filters, candidates) in enumerate(self._lanes):
            instants = updates.time_s + lane.offset_s + lane.disturb * noise
            rows, time = lane.rows(instants, pieces, width)
            keep = usable[skip:]
            ledger = None
            if number == 0:
                ledger = self._ledger(time, joules[skip:], fresh[skip:], pure[skip:])
            self._fit(rows, joules[skip:], updates.time_s[skip:], keep, ledger, filters, candidates)
        self._count_occupancy(updates)
        self._last = updates.take(slice(len(updates) - 1, None))
        statistics.end_s = float(updates.time_s[-1])
        self._forget()

    def _fit(
        self,
        rows: Floats,
        joules: Floats,
        time_s: Floats,
        keep: Bools,
        ledger: Floats | None,
        filters: Innovations,
        candidates: list[Candidate],
    ) -> None:
        filters.widen(self.statistics.columns.width)
        filtered = filters.filter(np.concatenate([joules[keep, None], rows[keep]], axis=1))
        used = np.flatnonzero(keep)
        used = used[len(used) - filtered.shape[1] :]  # the first one only sets the filter
        for place, candidate in enumerate(candidates):
            ledger_rows = None
            if place == 0 and ledger is not None:  # what lies between two rows goes with the later
                total = np.concatenate([np.zeros((1, *ledger.shape[1:])), ledger.cumsum(0)])
                until = total[np.append(0, used + 1)]
                ledger_rows = np.diff(until, axis=0)
            candidate.blocks.add(filtered[place], time_s[used], ledger_rows)
            if ledger_rows is not None:
                candidate.blocks.note(total[-1] - until[-1])

    def _ledger(self, time: Floats, joules: Floats, fresh: Bools, pure: Ints) -> Floats:
        """Time and energy of intervals inside one phase, and of the mixed ones."""
        columns = self.statistics.columns
        ledger = np.zeros((len(time), LINES, columns.width))
        good = ~fresh & (pure == MIXED)
        ledger[good, MIXED_S] = time[good]
        ledger[good, MIXED_J, 0] = joules[good]
        for code in np.unique(pure[~fresh & ~good]).tolist():
            inside = ~fresh & (pure == code)
            first = columns.first[code]
            ledger[inside, DIRECT_S, first] = time[inside][:, columns.slice_columns(code)].sum(1)
            ledger[inside, DIRECT_J, first] = joules[inside]
        return ledger

    def _pure(self, updates: Updates, chain: Updates) -> Ints:
        """Per update the long phase that fills the interval before it, or MIXED.

        Lag included: what came before that phase must have settled. Short phases are left
        to the regression, since what a ramp inside them owes to the lag is not small.
        ``chain`` is the same with the update before, where there is one.
        """
        spans = self._spans
        settle = _SETTLED * (self._kernel.tau_s if self._kernel else Kernel.LONGEST_TAU_S)
        begin = np.concatenate([[np.nan], chain.time_s[:-1]])[-len(updates) :]
        slack = np.concatenate([[0.0], chain.slack_s[:-1]])[-len(updates) :]
        new = np.concatenate([[True], spans.code[1:] != spans.code[:-1]])
        borders = spans.begin_s[new]
        low = begin - settle - slack
        high = updates.time_s + updates.slack_s
        quiet = np.searchsorted(borders, low, "right") == np.searchsorted(borders, high, "right")
        quiet &= np.isfinite(low) & (low >= spans.begin_s[0])
        after = np.searchsorted(borders, updates.time_s, "right")
        ends = np.append(borders[1:], spans.end_s[-1])
        within = np.clip(after - 1, 0, None)
        lasts = np.minimum(ends[within], updates.horizon_s) - borders[within]
        place = np.clip(np.searchsorted(spans.begin_s, updates.time_s, "right") - 1, 0, None)
        return np.where(quiet & (lasts >= _LONG_S), spans.code[place], MIXED)

    # -- columns ---------------------------------------------------------------------

    def _cover(self, updates: Updates) -> None:
        """At the end of the run the time after the last span is nobody's."""
        need = float(updates.time_s[-1]) + 1.0
        if self._ended and (not len(self._spans) or self._spans.end_s[-1] < need):
            begin = float(self._spans.end_s[-1]) if len(self._spans) else need - 1.0
            self._spans = self._spans.append(
                Spans(np.array([begin]), np.array([need]), np.array([UNATTRIBUTED]))
            )

    def _allocate(self, updates: Updates) -> Slices:
        """Columns for phases that these updates need; the spans that they need, in slices.

        How long a phase is is judged by what was known when it was first used, so that it
        does not matter how the data were cut.
        """
        columns = self.statistics.columns
        spans = self._spans.until(float(updates.time_s[-1]) + _REACH_S)
        everything = self._spans
        new = [c for c in spans.codes() if c not in columns.first]
        firsts = {c: float(spans.begin_s[spans.code == c][0]) for c in new}
        for code in sorted(new, key=firsts.__getitem__):
            user = int(np.searchsorted(updates.time_s + _REACH_S, firsts[code], "right"))
            known_s = float(updates.horizon_s[min(user, len(updates) - 1)])
            instances = (everything.code == code) & (
                everything.begin_s <= max(known_s, firsts[code])
            )
            begin, end = everything.begin_s[instances], everything.end_s[instances]
            usual = float(np.median(end - begin))  # the first one of a run may be long
            cycle = float(np.median(np.diff(begin))) if len(begin) > 1 else usual
            fine = self._meter.period_s < _FINE_S
            columns.add(code, 1 if code == UNATTRIBUTED else slices(usual, cycle, fine=fine))
        self.statistics.widen()
        return cut(spans, columns)

    # -- gates' evidence ---------------------------------------------------------------

    def _count_occupancy(self, updates: Updates) -> None:
        spans = self._spans
        entered = np.concatenate([[True], spans.code[1:] != spans.code[:-1]])
        for code in spans.codes():
            begins = spans.begin_s[entered & (spans.code == code)]
            k = np.searchsorted(begins, updates.time_s, "right") - 1
            inside = (k >= 0) & (k < len(begins) - 1)
            inside[inside] &= begins[k[inside] + 1] < updates.horizon_s[inside]
            if not inside.any():
                continue
            begin, end = begins[k[inside]], begins[k[inside] + 1]
            share = (updates.time_s[inside] - begin) / (end - begin)
            counts = np.bincount(
                np.minimum((share * BINS).astype(np.int64), BINS - 1), minlength=BINS
            )
            before = self.statistics.occupancy.get(code)
            self.statistics.occupancy[code] = counts if before is None else before + counts

    def _count_moments(self, until_s: float) -> None:
        moments = self.statistics.moments
        for code, more in self._spans.after(self._counted_s).ending_by(until_s).moments().items():
            moments[code] = moments[code] + more if code in moments else more
        self._counted_s = until_s

    def _forget(self) -> None:
        """Keep the spans that the next interval, its lag and its phase's cycle may need."""
        assert self._last is not None
        keep_s = float(self._last.time_s[0]) - _SETTLED * Kernel.LONGEST_TAU_S - 0.5
        self._count_moments(keep_s)
        self._spans = self._spans.after(keep_s)
