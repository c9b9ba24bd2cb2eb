"""The estimator's streaming half: reads and spans in, block statistics out.

    reads ──> UpdateFinder ──> updates ─┐
                                        ├─> RowBuilder (per lag, offset) ──> Innovations ──> Blocks
    spans ──> Columns, slices ──────────┘

The same class runs in the recorder, batch by batch, and over a stored run at once; what it
gives does not depend on how the data were cut. :mod:`solve` turns :class:`Statistics` into
joules. An interval between two updates that lies wholly inside a phase of seconds (start-up,
an evaluation) needs no regression: its energy is that phase's. The others are *mixed*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .arrays import Floats, Ints
from .intervals import ledger_rows, long_phases, occupancy_counts
from .meter.update_times import CounterUpdateFinder
from .meter.updates import UpdateFinder, Updates
from .regression.allocation import allocate
from .regression.blocks import Blocks, Innovations
from .regression.columns import MIXED, UNATTRIBUTED
from .regression.design import RowBuilder, Spans, SpanSlices, cut
from .regression.lag import EXACT_GRAIN_S, GAINS, GRAIN_S, SensorLag, likely_lags
from .regression.statistics import Candidate, Statistics, add_rows

_SETTLED = 5.0  # lags after which a phase's power has arrived
_BLIND_UPDATES = 400  # seen before lag and offset are chosen
_BLIND_S = 45.0
_GUARD_GAIN = 0.25
_FINE_S = 0.03  # period of a meter that has data enough for the shortest slices
_REACH_S = 0.05  # an update needs no span that begins later than this after it
_MOST_WAITING = 20_000  # updates without spans (a phase of many minutes)


class Accumulator:
    """Turns reads and spans into :class:`Statistics`; seconds and joules.

    Feed both as they come, each in order of time; call :meth:`finish` at the end.
    """

    def __init__(
        self,
        lag: SensorLag | None = None,
        finder: UpdateFinder | None = None,
        *,
        begin_s: float = -np.inf,
        seed: int = 0,
    ):
        """An accumulator without any data.

        Args:
            lag: the sensor's lag and clock offset; None: they are inferred from the
                first part of the run.
            finder: makes dated updates of what is read; None: a :class:`CounterUpdateFinder`.
            begin_s: of the run; what the counter did before is not the run's.
            seed: of the timing guard's noise.
        """
        self.statistics = Statistics()
        self._lag = lag
        self._begin_s = begin_s
        self._finder: UpdateFinder = finder or CounterUpdateFinder()
        self._noise = np.random.default_rng(seed)
        self._updates = Updates.of([])  # dated, not yet used
        self._spans = Spans.empty()  # filled, from before the last used update on
        self._until_s = -np.inf  # spans are known up to here
        self._last: Updates | None = None  # the last used update, alone
        self._ended = False
        self._builders: list[tuple[RowBuilder, Innovations, list[Candidate]]] = []
        self._counted_s = -np.inf  # spans that end by then are in the moments
        self.resumed = False
        self._every = 1
        self._seen = 0

    def resume(self, statistics: Statistics) -> None:
        """Go on from statistics that another accumulator gathered.

        What lies between the two is not counted.
        """
        self.statistics, self.resumed = statistics, True
        builders: dict[tuple[float, float, float], list[Candidate]] = {}
        for candidate in statistics.candidates:
            key = candidate.tau_s, candidate.offset_s, candidate.disturb
            builders.setdefault(key, []).append(candidate)
        width = statistics.columns.width
        self._builders = [
            (
                RowBuilder(*key),
                Innovations(np.array([c.gain for c in candidates]), width),
                candidates,
            )
            for key, candidates in builders.items()
        ]

    # -- what comes in ---------------------------------------------------------------

    def feed_reads(self, time_s: Floats, span_s: Floats, joules: Floats) -> None:
        """Take reads, arrays (n,): when each returned, how long it took, its value in J."""
        if len(time_s):
            self._take(self._finder.feed(time_s, span_s, joules))

    def interrupt(self) -> None:
        """Count no energy for what the counter does between the last read and the next."""
        self._finder.interrupt()

    def feed_spans(self, spans: Spans) -> None:
        """Take further phase instances, complete ones only, that follow those before."""
        if len(spans):
            self._spans = self._spans.append(spans.filled().reaching_from(self._spans))
            self._until_s = float(spans.end_s[-1])

    def thin(self) -> int:
        """Use half as many updates from now on, each row twice as long.

        Returns one in how many updates is used.
        """
        self._every *= 2
        return self._every

    def finish(self, end_s: float = np.inf) -> Statistics:
        """Use all that is left up to the run's end; call nothing after this."""
        self._take(self._finder.finish())
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
        """Turn the updates whose spans are known into rows of the regression."""
        updates = self._updates
        if not self._ended:
            ready = int(np.searchsorted(updates.horizon_s, self._until_s, "left"))
            updates = updates.take(slice(0, ready))
        if not len(updates):
            return
        if self._last is None:
            self._surround(updates)
        self._cover(updates)
        if not self._builders and not self._begin(updates):
            return
        self._updates = self._updates.take(slice(len(updates), None))
        self._use(updates)

    def _begin(self, updates: Updates) -> bool:
        """Choose the candidates; False if more must be seen first."""
        lag = self._lag
        if lag is None:
            # Up to a place that does not depend on how the data were cut.
            late = int(np.searchsorted(updates.time_s, updates.time_s[0] + _BLIND_S)) + 1
            number = min(_BLIND_UPDATES, late)
            if len(updates) < number and not self._ended:
                return False
            updates = updates.take(slice(0, number))
        statistics = self.statistics
        gains: tuple[float, ...] = GAINS
        if lag is not None:
            lags = [lag]
        else:
            common_s = self._finder.common_error_s
            statistics.lag_is_unsure = self._finder.exact or common_s > 0
            lag_s, offset_s = EXACT_GRAIN_S if self._finder.exact else GRAIN_S
            lags, gains = likely_lags(
                updates,
                self._allocate(updates),
                statistics.columns,
                self._long_phases(updates, updates),
                (lag_s, math.hypot(offset_s, common_s)),
            )
        for place, candidate in enumerate(lags):
            self._open(candidate, 0.0, gains[:1] if place else gains)
        guard = gains[0] if lag is None else _GUARD_GAIN
        if not self._finder.exact:
            for disturb in (1.0, -1.0):  # opposite noise: what is odd in it cancels in their mean
                self._open(lags[0], disturb, (guard,))
        return True

    def _open(self, lag: SensorLag, disturb: float, gains: Sequence[float]) -> None:
        width = self.statistics.columns.width
        builder = RowBuilder(lag.tau_s, lag.offset_s, disturb)
        candidates = [
            Candidate(lag.tau_s, lag.offset_s, gain, disturb, Blocks(width)) for gain in gains
        ]
        self.statistics.candidates += candidates
        self._builders.append((builder, Innovations(np.array(gains), width), candidates))

    def _surround(self, updates: Updates) -> None:
        """Spans from before the first update; the time before the first span is UNATTRIBUTED."""
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
        long_phase = self._long_phases(
            updates, Updates.concat([last, updates]) if last else updates
        )
        noise = updates.sigma_s * self._noise.standard_normal(len(updates))
        usable = ~fresh & (long_phase == MIXED)
        skip = 1 if last is None else 0  # the first instant ends no interval
        width = statistics.columns.width
        for number, (builder, filters, candidates) in enumerate(self._builders):
            instants = updates.time_s + builder.offset_s + builder.disturb * noise
            rows, time = builder.rows(instants, pieces, width)
            keep = usable[skip:]
            ledger = None
            if number == 0:
                ledger = ledger_rows(
                    statistics.columns, time, joules[skip:], fresh[skip:], long_phase[skip:]
                )
            filters.widen(width)
            add_rows(rows, joules[skip:], updates.time_s[skip:], keep, ledger, filters, candidates)
        self._count_occupancy(updates)
        self._last = updates.take(slice(len(updates) - 1, None))
        statistics.end_s = float(updates.time_s[-1])
        self._forget()

    def _long_phases(self, updates: Updates, chain: Updates) -> Ints:
        settle_s = _SETTLED * (self._lag.tau_s if self._lag else SensorLag.LONGEST_TAU_S)
        return long_phases(updates, chain, self._spans, settle_s)

    # -- columns ---------------------------------------------------------------------

    def _cover(self, updates: Updates) -> None:
        """At the end of the run the time after the last span is UNATTRIBUTED."""
        need = float(updates.time_s[-1]) + 1.0
        if self._ended and (not len(self._spans) or self._spans.end_s[-1] < need):
            begin = float(self._spans.end_s[-1]) if len(self._spans) else need - 1.0
            self._spans = self._spans.append(
                Spans(np.array([begin]), np.array([need]), np.array([UNATTRIBUTED]))
            )

    def _allocate(self, updates: Updates) -> SpanSlices:
        """Give columns to phases that these updates need; return the spans needed, in slices."""
        columns = self.statistics.columns
        spans = self._spans.until(float(updates.time_s[-1]) + _REACH_S)
        fine = self._finder.period_s < _FINE_S
        allocate(columns, spans.codes(), self._spans, updates, _REACH_S, fine=fine)
        self.statistics.widen()
        return cut(spans, columns)

    # -- what identifiability is judged by ---------------------------------------------

    def _count_occupancy(self, updates: Updates) -> None:
        occupancy = self.statistics.occupancy
        for code, counts in occupancy_counts(updates, self._spans).items():
            occupancy[code] = occupancy[code] + counts if code in occupancy else counts

    def _count_moments(self, until_s: float) -> None:
        moments = self.statistics.moments
        for code, more in self._spans.after(self._counted_s).ending_by(until_s).moments().items():
            moments[code] = moments[code] + more if code in moments else more
        self._counted_s = until_s

    def _forget(self) -> None:
        """Keep the spans that the next interval, its lag and its phase's cycle may need."""
        assert self._last is not None
        keep_s = float(self._last.time_s[0]) - _SETTLED * SensorLag.LONGEST_TAU_S - 0.5
        self._count_moments(keep_s)
        self._spans = self._spans.after(keep_s)
