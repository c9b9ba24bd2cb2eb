"""The lanes of one meter, fed with the same updates."""

from __future__ import annotations

import numpy as np

from ..arrays import Bools, Floats, Ints
from ..columns import MIXED
from ..intervals import ledger_rows
from ..meter.misdated import MisdatedUpdates
from ..meter.updates import Updates
from ..response.response import Kind, Response
from ..response.shown import ShownTime
from ..spans import SpanSlices
from .blocks import Innovations
from .lanes import Lane, LikelyLanes, add_blur, add_rows, lane_rows
from .solution import Model, Solution
from .solve import PHASE_SPREAD
from .statistics import Statistics

_REFRESHED_ROWS = 200  # powers that the response's columns assume are solved anew then, doubling
_RULED_OUT = 60.0  # worse by so much in evidence: its weight is below a thousandth


class LaneSet:
    """Adds rows to the lanes of some statistics."""

    def __init__(self, statistics: Statistics):
        """Go on with the lanes that the statistics have, if any."""
        self._statistics = statistics
        self._filters = [_filter_of(lane) for lane in statistics.lanes]
        self._misdated = MisdatedUpdates()
        self._refresh_at = _REFRESHED_ROWS
        while self._refresh_at <= statistics.mixed_rows:
            self._refresh_at *= 2

    def open(self, likely: LikelyLanes, rows: int) -> None:
        """Open a lane per response and, of the likeliest response, one per gain.

        Args:
            rows: that showed the powers.
        """
        self._refresh_at = max(_REFRESHED_ROWS, 2 * rows)
        (response, tie, power_w), *others = likely.lanes
        lanes = [Lane.empty(response, tie, gain, power_w) for gain in likely.gains]
        lanes += [Lane.empty(r, t, likely.gains[0], p) for r, t, p in others]
        self._statistics.lanes, self._statistics.ambiguous = lanes, likely.ambiguous
        self._filters = [_filter_of(lane) for lane in lanes]

    def add(
        self,
        chain: Updates,
        slices: SpanSlices,
        long_phase: Ints,
        usable: Bools,
        closely_dated: Bools,
    ) -> None:
        """Add the intervals between n + 1 successive updates.

        Args:
            slices: of the spans around them.
            long_phase: code of the long phase that fills an interval, or MIXED, (n,).
            usable: intervals whose energy is known and that show no part of a slow visit, (n,).
            closely_dated: intervals whose ends are known well enough for a row, (n,).
        """
        statistics = self._statistics
        columns = statistics.columns
        shown = ShownTime(slices, columns.width, statistics.period_s)
        left_out = self._dated_wrongly(shown, chain, usable & (long_phase == MIXED) & closely_dated)
        if left_out.any():  # two intervals become one
            chain, later = chain.take(~left_out), ~left_out[1:]
            long_phase, usable = long_phase[later], usable[later]
            closely_dated = closely_dated[later]
        joules = np.diff(chain.joules)
        ends_s, time_s = np.maximum.accumulate(chain.time_s), chain.time_s[1:]
        keep = usable & (long_phase == MIXED) & closely_dated
        rows, before = np.empty(0), None
        for number, (lane, filters) in enumerate(zip(statistics.lanes, self._filters, strict=True)):
            if before is None or not lane.has_rows_of(before):
                rows = lane_rows(shown, ends_s, lane)
            else:
                lane.late_w = before.late_w
            before = lane
            ledger = None
            if number == 0:
                spent = np.diff(shown.elapsed(ends_s - lane.response.mean_s), axis=0)
                borders = np.array([columns.border_of(code) for code in columns.first])
                spent[:, borders] = rows[:, lane.extras + borders]
                ledger = ledger_rows(columns, spent, joules, ~usable, long_phase)
            filters.widen(lane.extras + columns.width)
            add_rows(lane, filters, rows, joules, time_s, keep, ledger)
            add_blur(lane, shown, ends_s, chain.sigma_s, keep)
        if statistics.mixed_rows >= self._refresh_at:
            self._refresh()

    def _dated_wrongly(self, shown: ShownTime, chain: Updates, judged: Bools) -> Bools:
        """Which of n + 1 updates the likeliest lane contradicts, (n + 1,)."""
        lane = self._statistics.lanes[0]
        if lane.response.kind is Kind.PART_TIME:  # energy outside of its windows is not shown
            return np.zeros(len(chain), np.bool_)
        ends_s = np.maximum.accumulate(chain.time_s)
        powers = shown.powers(lane.power_w[shown.slices.column])
        expected_j = shown.energies(powers, ends_s, lane.response)
        return self._misdated.find(np.diff(chain.joules) - expected_j, judged)

    def _refresh(self) -> None:
        """Solve for the powers that the columns of the response assume from now on.

        Lanes that the run has ruled out by now end here.
        """
        self._refresh_at *= 2
        statistics = self._statistics
        solutions = [Solution(statistics, PHASE_SPREAD, Model(x)) for x in statistics.lanes]
        best = min(solution.score for solution in solutions)
        kept = [solution.score < best + _RULED_OUT for solution in solutions]
        powers: dict[Response, Floats] = {}
        for lane, solution in zip(statistics.lanes, solutions, strict=True):
            if lane.extras:  # lanes that differ in gain alone go on sharing their rows
                watts = solution.column_powers(statistics.columns.width)
                lane.power_w = powers.setdefault(lane.response, watts)
        ledger = statistics.lanes[0].blocks.ledger
        self._filters = [f for f, keep in zip(self._filters, kept, strict=True) if keep]
        statistics.lanes = [x for x, keep in zip(statistics.lanes, kept, strict=True) if keep]
        statistics.lanes[0].blocks.ledger = ledger  # it is the run's, whoever leads


def _filter_of(lane: Lane) -> Innovations:
    return Innovations(np.array([lane.gain]), lane.extras + len(lane.power_w))
