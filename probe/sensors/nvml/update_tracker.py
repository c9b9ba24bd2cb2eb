"""When to read a counter that updates periodically.

Each update should lie between two close reads (a bracket).

A GPU's energy counter changes every 20–100 ms, at instants that are not announced. Reading
every 10 ms would find them, but 100 reads/s are over budget. So: search at 10 ms for a
second or two, fit the period, then read only in short bursts around each predicted update.

The burst has a *random phase*: with reads placed symmetrically about the prediction the
bracket's middle is the prediction itself, and an error confirms itself for ever.

Where the prediction has been good for long (a stable counter), it dates an update better than one
bracket does. Then the counter is sampled sparsely: only one update in a few is bracketed, and
between them the counter is read once in the middle between two updates, for its value. The
constants of that and the grid that all stable counters share are in :mod:`.._schedule`.

Pure: no driver, no clock. Times are monotonic nanoseconds.
"""

from __future__ import annotations

from collections import deque
from random import Random

from ...units import NS_PER_MS, NS_PER_S
from .._schedule import (
    SPARSE_READS,
    SPARSE_READS_FAST,
    STABLE_AFTER,
    STABLE_ERROR,
    grid_instant,
    irregular_share,
)
from .counter_period import fit_period

SEARCH_NS = 10 * NS_PER_MS
SLOW_SEARCH_NS = 20 * NS_PER_MS  # after 2 s of search, and without a period: 50 reads/s
SEARCH_FOR_NS = 2 * NS_PER_S
FREE_FOR_NS = 30 * NS_PER_S  # without a period, look for one again after this long
FASTEST_NS = 16 * NS_PER_MS  # updates that come faster are not worth a burst each
CLOSE_NS = (1 * NS_PER_MS, 8 * NS_PER_MS)
CLOSE_PAIRS = 0.3  # of the reads of such a counter have another one close behind…
CLOSE_MOVED = 0.75  # …while so many of these see it moved; else they fall on one value too often
_CLOSE_SEEN = 16
NARROW_NS = 12 * NS_PER_MS  # a wider bracket says nothing about the period
SEARCH_TOKENS = 110.0  # reads that one search may take above the budget
LOCKED_TOKENS = 30.0  # room for a few missed updates in a row
GRANT_EVERY_NS = 10 * NS_PER_S  # one search in this time
BURST = 4  # reads a burst at most, as a rule; it ends at the change
FINER = 0.625  # spacing of a stable counter: fewer brackets, but narrower ones
COARSE_NS = 50 * NS_PER_MS  # a counter of this period or a longer one is read with wider spacing
_BETWEEN = (0.22, 0.78)  # of the period after an update: where a sparse read may be
_ALPHA, _BETA = 0.15, 0.0122  # steady gains of the tracking loop: it averages ~12 updates


class UpdateTracker:
    """Predicts the updates of one counter and says when to read it next."""

    __slots__ = (
        "_bad", "_bracketed_ns", "_changes", "_close", "_close_moved", "_early", "_error_ns",
        "_fast", "_free_until_ns", "_granted_ns", "_index", "_last_ns", "_lead", "_left_ns",
        "_mids", "_predicted_ns", "_random", "_reads", "_seen", "_since_ns", "_skipped",
        "_spacing_ns",
        "_sparse", "_started_ns", "_tokens", "locked", "next_ns", "period_ns", "relocks",
        "searching",
    )  # fmt: skip

    def __init__(self, now_ns: int, random: Random) -> None:
        self._random = random
        self.next_ns = now_ns
        self.relocks = -1  # searches after the first one
        self.period_ns = 0.0  # 0: unknown
        self._last_ns = 0  # the read before, 0: none that bounds an update closely
        self._sparse = 0  # sparse reads to make before the next burst
        self._tokens = 0.0  # reads that may be made above the budget
        self._close_moved: deque[bool] = deque(maxlen=_CLOSE_SEEN)
        self._granted_ns = now_ns - GRANT_EVERY_NS
        self._left_ns = now_ns
        self._search(now_ns)

    @property
    def budget_per_s(self) -> float:
        """Reads per second that are sustained: 50, up to 200 for a counter of 20 ms."""
        if not self.locked or self.period_ns >= 80 * NS_PER_MS:
            return 50.0
        return min(200.0, BURST * NS_PER_S / self.period_ns)

    def observe(self, time_ns: int, changed: bool) -> None:
        """The counter was read at ``time_ns``; has it changed since the read before?"""
        sparse = self.locked and self._sparse > 0
        if sparse:
            self._observe_sparse(time_ns, changed)
        elif self.locked:
            self._observe_locked(time_ns, changed)
        elif self.searching:
            self._observe_search(time_ns, changed)
        else:
            self._observe_free(time_ns, changed)
        self._last_ns = 0 if sparse else time_ns
        self._spend(time_ns)

    def interrupt(self, now_ns: int, retry_ns: int) -> None:
        """The read failed: what came before no longer bounds the next update."""
        self._last_ns = self._sparse = 0
        self.next_ns = now_ns + retry_ns
        if self.locked and retry_ns > self.period_ns:
            self._search(now_ns)
            self.next_ns = now_ns + retry_ns

    def _spend(self, now_ns: int) -> None:
        rate = self.budget_per_s
        earned = (now_ns - self._left_ns) * rate / NS_PER_S
        room = SEARCH_TOKENS if self.searching else LOCKED_TOKENS
        self._tokens = min(room, self._tokens + earned) - 1
        self._left_ns = now_ns
        if self._tokens >= 0:
            return
        if self.locked:
            self._skip(now_ns)
        # A burst that was widened after late reads may begin in the past: it would be read at once,
        # and again, for as long as the machine is busy.
        self.next_ns = max(self.next_ns, now_ns + round(NS_PER_S / rate))

    # -- search ------------------------------------------------------------------

    def _search(self, now_ns: int) -> None:
        self.locked, self.searching = False, True
        self._started_ns = now_ns
        wait = self._granted_ns + GRANT_EVERY_NS - now_ns
        if wait > 0:  # not so soon again: read evenly until then
            self._free(now_ns, wait)
            return
        self.relocks += 1
        self._granted_ns, self._tokens = now_ns, SEARCH_TOKENS
        self._mids: list[float] = []
        self._reads = self._changes = 0

    def _observe_search(self, time_ns: int, changed: bool) -> None:
        self._reads += 1
        elapsed = time_ns - self._started_ns
        poll = SEARCH_NS if elapsed < SEARCH_FOR_NS else SLOW_SEARCH_NS
        self.next_ns = time_ns + round(poll * self._random.uniform(0.9, 1.1))
        if not changed:
            return
        self._changes += 1
        if self._last_ns and time_ns - self._last_ns <= 1.6 * poll:
            self._mids.append((self._last_ns + time_ns) / 2)
        if elapsed < NS_PER_S or len(self._mids) < 4:
            return
        if elapsed / self._changes < FASTEST_NS:
            self._free(time_ns, fast=True)
            return
        fit = fit_period(self._mids)
        if fit is not None and fit[2] <= 1.2 * poll and fit[0] >= FASTEST_NS:
            self.period_ns, last, _ = fit
            self._lock(last)
        elif elapsed > 3 * SEARCH_FOR_NS:
            self._free(time_ns)

    def _free(self, now_ns: int, for_ns: int = FREE_FOR_NS, *, fast: bool = False) -> None:
        """No period that can be followed: read evenly.

        Args:
            fast: updates come too fast for that.
        """
        self.locked = self.searching = False
        self.period_ns = 0.0
        self._fast, self._close = fast, False
        self._free_until_ns = now_ns + for_ns

    def _observe_free(self, time_ns: int, changed: bool) -> None:
        if self._close:
            self._close_moved.append(changed)
        moved = self._close_moved
        if not self._fast:
            poll = SLOW_SEARCH_NS * self._random.uniform(0.9, 1.1)
        elif len(moved) == _CLOSE_SEEN and sum(moved) < CLOSE_MOVED * _CLOSE_SEEN:
            self._close = False
            poll = SLOW_SEARCH_NS * irregular_share(self._random)
        else:
            # Two reads close together now and then: how often it moves between them tells how
            # fast it is, and so how old a value is when it is read. The rate stays the same.
            self._close = not self._close and self._random.random() < CLOSE_PAIRS
            even = 1.2 * SLOW_SEARCH_NS * self._random.uniform(0.9, 1.1)
            poll = self._random.uniform(*CLOSE_NS) if self._close else even
        self.next_ns = time_ns + round(poll)
        if time_ns >= self._free_until_ns:
            self._search(time_ns)

    # -- locked --------------------------------------------------------------------

    def _lock(self, last_update_ns: float) -> None:
        self.locked, self.searching = True, False
        self._spacing_ns = _usual_spacing_ns(self.period_ns)
        self._error_ns = 0.0
        self._index = min(max(len(self._mids), 3), 12)  # how many updates the estimate rests on
        self._predicted_ns = last_update_ns + self.period_ns
        self._tokens = LOCKED_TOKENS
        self._skipped = False
        self._seen, self._since_ns = 0, last_update_ns
        self._lead: float = BURST / 2
        self._early = self._bad = 0
        self._bracketed_ns = last_update_ns
        self._plan()

    def _plan(self) -> None:
        phase = self._random.uniform(-0.5, 0.5)
        before = self._lead - 0.5 + phase
        self.next_ns = round(self._predicted_ns - before * self._spacing_ns)

    def _observe_locked(self, time_ns: int, changed: bool) -> None:
        spacing, period = self._spacing_ns, self.period_ns
        self._seen += changed
        if time_ns - self._since_ns > 30 * period:
            # Half of the predicted updates never come: the period has become a multiple.
            multiple = self._seen < 0.55 * (time_ns - self._since_ns) / period
            self._seen, self._since_ns = 0, time_ns
            if multiple:
                self._search_soon(time_ns)
                return
        if not changed:
            if time_ns < self._predicted_ns + 8 * spacing:
                self.next_ns = max(self.next_ns + round(spacing), time_ns + round(spacing / 2))
                return
            self._miss(time_ns)  # no update where one was due
            return
        width = time_ns - self._last_ns
        if not self._last_ns or width > max(NARROW_NS, 1.6 * spacing):
            if self._skipped:  # that was the update we had no reads left for
                self._skipped = False
                self.next_ns = max(self.next_ns + round(spacing), time_ns + round(spacing / 2))
            else:
                self._too_late(time_ns)
            return
        self._skipped = False
        error = (self._last_ns + time_ns) / 2 - self._predicted_ns
        skipped = round(error / period)
        error -= skipped * period
        if abs(error) > 3 * spacing:
            self._jump(time_ns, error)
            return
        self._index += 1
        n = self._index
        alpha = max(_ALPHA, 2 * (2 * n - 1) / (n * (n + 1)))  # a straight line through the
        beta = max(_BETA, 6 / (n * (n + 1)))  # first n updates, then a fading memory
        self._predicted_ns += skipped * period
        # The slope's gain is for one period; the error has grown over all since the last bracket.
        before, self._bracketed_ns = self._bracketed_ns, self._predicted_ns + error
        self.period_ns += beta * error / max(1, round((self._bracketed_ns - before) / period))
        self._predicted_ns += alpha * error + self.period_ns
        self._error_ns += 0.05 * (abs(error) - self._error_ns)
        base = _usual_spacing_ns(period)
        steady = self._error_ns < STABLE_ERROR * base
        stable = steady and n >= STABLE_AFTER
        coarse = period >= COARSE_NS
        if stable and coarse:
            base *= FINER
        self._spacing_ns = min(max(base, 1.5 * self._error_ns), float(NARROW_NS))
        self._lead = 1.5 if n >= 20 and steady else BURST / 2  # half a read less
        self._early = self._bad = 0
        self._advance(time_ns)
        if stable:
            self._sparse = SPARSE_READS if coarse else SPARSE_READS_FAST
            self._plan_between()

    def _observe_sparse(self, time_ns: int, changed: bool) -> None:
        """A read between two updates: the prediction dates the value."""
        self._seen += changed
        self._sparse -= 1
        late = time_ns - self._predicted_ns
        while self._predicted_ns < time_ns:
            self._predicted_ns += self.period_ns
        if not changed or late > 2 * self.period_ns:  # not as predicted, or we slept: look again
            self._sparse = 0
            self._index = min(self._index, 12)
        if self._sparse:
            self._plan_between()
        else:
            self._advance(time_ns)

    def _plan_between(self) -> None:
        """Read between the next update and the one after, on the grid common to all counters."""
        low, high = (self._predicted_ns + share * self.period_ns for share in _BETWEEN)
        self.next_ns = grid_instant(low, high)

    def _too_late(self, time_ns: int) -> None:
        """The burst's first read saw the change: the update came before it. Look earlier."""
        self._early += 1
        self._lead = min(2 * self._lead, 0.8 * self.period_ns / self._spacing_ns)
        self._predicted_ns += self.period_ns
        if self._early > 5:
            self._search(time_ns)
        else:
            self._advance(time_ns)

    def _miss(self, time_ns: int) -> None:
        self._bad += 1
        self._predicted_ns += self.period_ns
        self._advance_unless_lost(time_ns)

    def _jump(self, time_ns: int, error: float) -> None:
        """A close bracket far from the prediction: the updates moved; forget most of the past."""
        self._bad += 1
        self._index = 4
        self.period_ns += 0.3 * error if abs(error) < 0.1 * self.period_ns else 0.0
        self._bracketed_ns = (self._last_ns + time_ns) / 2
        self._predicted_ns = self._bracketed_ns + self.period_ns
        self._advance_unless_lost(time_ns)

    def _advance_unless_lost(self, time_ns: int) -> None:
        if self._bad > 4:
            self._search_soon(time_ns)
        else:
            self._advance(time_ns)

    def _search_soon(self, time_ns: int) -> None:
        self._search(time_ns)
        self.next_ns = time_ns + SEARCH_NS

    def _skip(self, time_ns: int) -> None:
        """The budget is spent: let the next update pass unread."""
        self._skipped, self._sparse = True, 0
        while self._predicted_ns < time_ns + 0.6 * self.period_ns:
            self._predicted_ns += self.period_ns
        self._plan()

    def _advance(self, time_ns: int) -> None:
        """Plan the next burst, past updates that a late thread has already missed."""
        while self._predicted_ns + self._spacing_ns < time_ns:
            self._predicted_ns += self.period_ns
        self._plan()
        self.next_ns = max(self.next_ns, time_ns + round(self._spacing_ns / 2))


def _usual_spacing_ns(period_ns: float) -> float:
    """Between two reads of a burst."""
    return (4.0 if period_ns >= COARSE_NS else 2.0) * NS_PER_MS
