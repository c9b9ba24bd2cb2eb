"""The estimator's streaming half: reads and spans in, block statistics out.

    reads ──> UpdateFinder ──> updates ─┐
                                        ├─> lanes (a response, a drift gain): rows ──> Blocks
    spans ──> Columns, slices ──────────┘      ^ chosen by a search over the first 45 s

The same class runs in the recorder, batch by batch, and over a stored run at once; what it
gives does not depend on how the data were cut. :mod:`estimate` turns :class:`Statistics` into
joules. An interval between two updates that lies wholly inside a phase of seconds (start-up,
an evaluation) needs no regression: its energy is that phase's. The others are *mixed*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .allocation import allocate
from .arrays import Bools, Floats, Ints
from .columns import MIXED
from .intervals import closely_dated, deciding, enough, occupancy_counts
from .long_visits import LongVisits
from .meter.update_queue import UpdateQueue
from .meter.update_times import CounterUpdateFinder
from .meter.updates import UpdateFinder, Updates
from .meter.wander import Wander
from .regression.lane_set import LaneSet
from .regression.lanes import LikelyLanes
from .regression.statistics import Statistics
from .response import nuisance
from .response.response import Response
from .search import search
from .search.trial import Stretch
from .spans import Spans, SpanSlices, cut

_FINE_S = 0.03  # period of a meter that has data enough for the shortest slices
_REACH_S = 0.05  # an update needs no span that begins later than this after it
_TOGETHER_S = 10.0  # updates of so many seconds become rows at once: calls cost more than rows
_UNKNOWN_SETTLE_S = 0.2  # after which a phase's power has arrived, for all that is known
_KEPT_S, _AROUND_S = 0.5, 1.0  # spans around the updates
_MUCH_SLACK = 2.5  # times the median: an update in so wide a bracket is no end of a row
# Of delay and lag: where instants are exact, what the family of responses leaves out decides.
_EXACT_ERROR_S = (0.001, 0.002)


class Accumulator:
    """Turns reads and spans into :class:`Statistics`; seconds and joules.

    Feed both as they come, each in order of time; call :meth:`finish` at the end.
    """

    def __init__(
        self,
        response: Response | None = None,
        finder: UpdateFinder | None = None,
        *,
        exact: bool = False,
        polled: bool = False,
        hint: Response | None = None,
        begin_s: float = -np.inf,
    ):
        """An accumulator without any data.

        Args:
            response: how the sensor shows power, from a calibration; None: that is inferred
                from the first part of the run.
            finder: makes dated updates of what is read; None: a :class:`CounterUpdateFinder`.
            exact: the response is known without any error (our own windows, RAPL).
            polled: what is read are means of power over some window, not a counter.
            hint: a response from which the search begins, too; data decide.
            begin_s: of the run; what the counter did before is not the run's.
        """
        self.statistics = Statistics()
        self._response, self._exact, self._polled, self._hint = response, exact, polled, hint
        self._begin_s = begin_s
        self._finder: UpdateFinder = finder or CounterUpdateFinder()
        self._updates = UpdateQueue()
        self._spans = Spans.empty()  # filled, from before the last used update on
        self._until_s = -np.inf  # spans are known up to here
        self._last: Updates | None = None  # the last used update, alone
        self._ended = False
        self._search: Iterator[LikelyLanes | None] | None = None
        self._lanes = LaneSet(self.statistics)
        self._long_visits = LongVisits()
        self._wander = Wander()
        self._most_slack_s = np.inf
        self._counted_s = -np.inf  # spans that end by then are in the moments
        self.resumed = False
        self._skipped_before = self._searched_rows = 0

    def resume(self, statistics: Statistics) -> None:
        """Go on from statistics that another accumulator gathered.

        What lies between the two is not counted.

        Raises:
            ValueError: they are of an older recording, which no rows can be added to.
        """
        if statistics.of_older_recording:
            raise ValueError("statistics of an older recording")
        self.statistics, self.resumed = statistics, True
        self._lanes = LaneSet(statistics)
        self._skipped_before = statistics.skipped

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
        return self._updates.thin()

    def finish(self, end_s: float = np.inf) -> Statistics:
        """Use all that is left up to the run's end; call nothing after this."""
        self._take(self._finder.finish())
        self._updates.until(end_s)
        self._ended, self._until_s = True, np.inf
        self.advance()
        self._count(np.inf)
        return self.statistics

    def _take(self, updates: Updates) -> None:
        self._updates.put(updates.take(updates.time_s >= self._begin_s))
        self.statistics.skipped = self._skipped_before + self._updates.skipped
        self.statistics.undated = self._finder.undated

    # -- what is made of it ----------------------------------------------------------

    def advance(self, *, pieces: int | None = None) -> None:
        """Turn the updates whose spans are known into rows of the regression.

        Args:
            pieces: of the search for responses, at most, so that it does not take long at once;
                None: all of it.
        """
        updates = self._ready()
        if not len(updates):
            return
        if self._last is None:
            self._spans = self._spans.reaching_back(float(updates.time_s[0]) - _AROUND_S)
        if self._ended:
            self._spans = self._spans.reaching_on(float(updates.time_s[-1]) + _AROUND_S)
        if not self.statistics.lanes and not self._begin(updates, pieces):
            return
        while len(updates := self._ready()):
            number = self._together(updates)
            if not number:
                return
            self._updates.drop(number)
            self._use(updates.take(slice(0, number)))

    @property
    def searching(self) -> bool:
        """True while the search for responses is under way."""
        return self._search is not None

    @property
    def must_search(self) -> bool:
        """True while its response is neither known nor searched for to the end."""
        return self._response is None and not self.statistics.lanes

    @property
    def waiting(self) -> float:
        """Updates that wait, as a share of what is kept of them."""
        return self._updates.full

    def _ready(self) -> Updates:
        """The updates whose spans are known."""
        return self._updates.decided_by(self._until_s)

    def _together(self, updates: Updates) -> int:
        """How many of the updates become rows now, wherever the data were cut."""
        border = _TOGETHER_S * math.floor(float(updates.time_s[0]) / _TOGETHER_S + 1)
        number = int(np.searchsorted(updates.time_s, border))
        return number if number < len(updates) or self._ended else 0

    def _begin(self, updates: Updates, pieces: int | None) -> bool:
        """Open the lanes; False if more must be seen or searched first."""
        if self._search is None:
            number = self._wanted(updates)  # wherever the data were cut
            if len(updates) < number and not self._ended:
                return False
            stretch = self._stretch(updates.take(slice(0, number)))
            self._search = search.likely(stretch, self._response, exact=self._exact)
            self._searched_rows, self.statistics.period_s = number, stretch.period_s
        for done, likely in enumerate(self._search, 1):
            if likely is not None:
                self._search = None
                self._open(likely)
                return True
            if done == pieces and not self._ended:
                return False
        return False

    def _wanted(self, updates: Updates) -> int:
        most = search.updates_wanted(self._response, exact=self._exact)
        if len(updates) < most and np.ptp(updates.time_s) < search.BLIND_S:
            return len(updates) + 1
        long_phase, _ = self._of_long_visits(updates, updates)
        return min(enough(updates, long_phase, most, search.BLIND_S), search.MOST_UPDATES)

    def _stretch(self, updates: Updates) -> Stretch:
        self._allocate(updates)
        self._long_visits.learn(self._spans.until(float(updates.time_s[-1])))
        long_phase, slow = self._of_long_visits(updates, updates)
        usable = (long_phase == MIXED) & ~updates.fresh & ~slow
        self._most_slack_s = _MUCH_SLACK * float(np.median(updates.slack_s))
        return Stretch(
            updates.time_s,
            np.diff(updates.joules),
            usable[1:] & closely_dated(updates, self._most_slack_s),
            self._spans.until(float(updates.time_s[-1]) + _REACH_S),
            self.statistics.columns,
            float(np.median(np.diff(updates.time_s))) if len(updates) > 1 else 1.0,
            self._polled,
            self._hint,
        )

    def _open(self, likely: LikelyLanes) -> None:
        self._lanes.open(likely, self._searched_rows)
        statistics = self.statistics
        statistics.response_from = "run" if self._response is None else "calibration"
        exact = self._finder.exact and self._response is None
        statistics.unsure_s = _EXACT_ERROR_S if exact else (0.0, 0.0)
        statistics.common_error_s = self._finder.common_error_s

    def _use(self, updates: Updates) -> None:
        slices = self._allocate(updates)
        statistics, last = self.statistics, self._last
        chain = Updates.concat([last, updates]) if last is not None else updates
        if last is None and not self.resumed:
            statistics.begin_s = float(updates.time_s[0])
        long_phase, slow = self._of_long_visits(updates, chain)
        long_phase, slow = long_phase[-(len(chain) - 1) :], slow[-(len(chain) - 1) :]
        self._count_occupancy(updates)
        if not (self._finder.exact or self._finder.common_error_s):  # else reads date the updates
            self._wander.feed(updates.time_s)
            statistics.wander_s = self._wander.sd_s
        self._last = updates.take(slice(len(updates) - 1, None))
        statistics.end_s = float(updates.time_s[-1])
        if len(chain) > 1:
            usable = np.asarray(~chain.fresh[1:] & ~slow)
            dated = closely_dated(chain, self._most_slack_s)
            self._lanes.add(chain, slices, long_phase, usable, dated)
        self._forget()

    def _of_long_visits(self, updates: Updates, chain: Updates) -> tuple[Ints, Bools]:
        lanes = self.statistics.lanes
        settle_s = max((lane.response.reach_s for lane in lanes), default=_UNKNOWN_SETTLE_S)
        period_s = self.statistics.period_s if lanes else self._finder.period_s
        spans = deciding(self._spans, updates)
        return self._long_visits.of(updates, chain, spans, settle_s, period_s)

    # -- columns ---------------------------------------------------------------------

    def _allocate(self, updates: Updates) -> SpanSlices:
        """Give columns to phases that these updates need; return the spans needed, in slices."""
        columns = self.statistics.columns
        spans = self._spans.until(float(updates.time_s[-1]) + _REACH_S)
        fine = self._finder.period_s < _FINE_S
        allocate(columns, spans.codes(), self._spans, updates, _REACH_S, fine=fine)
        self.statistics.widen()
        return cut(spans, columns)

    def _count_occupancy(self, updates: Updates) -> None:
        occupancy = self.statistics.occupancy
        for code, counts in occupancy_counts(updates, deciding(self._spans, updates)).items():
            occupancy[code] = occupancy[code] + counts if code in occupancy else counts

    def _forget(self) -> None:
        """Keep the spans that the next interval, its response and its phase's cycle may need."""
        assert self._last is not None
        reach_s = max((lane.response.reach_s for lane in self.statistics.lanes), default=0.0)
        # Nearby responses reach further: later ones, and two lags instead of one.
        keep_s = float(self._last.time_s[0]) - 2.3 * (reach_s + max(nuisance.LAGS_S)) - _KEPT_S
        self._count(keep_s)
        self._spans = self._spans.after(keep_s)

    def _count(self, until_s: float) -> None:
        """Count the spans that end by then."""
        self.statistics.count(self._spans.after(self._counted_s).ending_by(until_s))
        self._counted_s = until_s
