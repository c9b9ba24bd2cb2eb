"""Long visits of phases: what fills intervals by itself, and what is no example of its phase.

An interval inside a long visit (an evaluation, a first step that compiles) needs no regression: its
energy is that phase's. A long visit of a phase whose visits are short otherwise is *slow*: a first
step that tunes its kernels, a stall. It draws another power than the others, and rows that show a
part of it would say so of them.
"""

from __future__ import annotations

import numpy as np

from .arrays import Bools, Floats, Ints
from .columns import MIXED
from .meter.updates import Updates
from .spans import Spans

# A visit is long from so many seconds on, or so many periods of the meter, if these are more.
_LONG_S, _LONG_PERIODS, _ALWAYS_LONG_S = 0.3, 10.0, 2.0
_SLOW, _FEWEST_VISITS = 5.0, 5  # times as long as usual; to say what is usual


class LongVisits:
    """Finds the intervals between updates that long visits fill or spoil."""

    def __init__(self) -> None:
        self._usual_s: dict[int, float] = {}  # by phase code

    def learn(self, spans: Spans) -> None:
        """Keep how long phases usually take, from the first part of a run."""
        self._usual_s = _usual_durations(spans)

    def of(
        self, updates: Updates, chain: Updates, spans: Spans, settle_s: float, period_s: float
    ) -> tuple[Ints, Bools]:
        """What long visits are to the interval before each update.

        Args:
            updates: n of them.
            chain: the same, with the update before them in front where there is one.
            spans: of the time around them.
            settle_s: seconds after which the meter has forgotten the power before.
            period_s: of the meter.

        Returns:
            (the phase whose long visit fills it, or MIXED, (n,); whether it shows a part of a slow
            visit beside other phases, (n,)).
        """
        long_s = min(max(_LONG_S, _LONG_PERIODS * period_s), _ALWAYS_LONG_S)
        begin_s = np.concatenate([[np.nan], chain.time_s[:-1]])[-len(updates) :]
        slack_s = np.concatenate([[0.0], chain.slack_s[:-1]])[-len(updates) :]
        low, high = begin_s - slack_s, updates.time_s + updates.slack_s
        fills = _filling(updates, spans, low - settle_s, high, long_s)
        shows = np.zeros(len(updates), np.bool_)
        for visit_s, end_s in self._slow(spans, long_s):
            shows |= (high >= visit_s) & (low <= end_s + settle_s)
        return fills, shows & (fills == MIXED)

    def _slow(self, spans: Spans, long_s: float) -> list[tuple[float, float]]:
        """(begin, end) of each slow visit."""
        places = np.flatnonzero(spans.end_s - spans.begin_s >= long_s).tolist()
        if not places:
            return []
        usual_s = _usual_durations(spans) | self._usual_s
        slow = []
        for place in places:
            begin_s, end_s = float(spans.begin_s[place]), float(spans.end_s[place])
            if end_s - begin_s > _SLOW * usual_s.get(int(spans.code[place]), np.inf):
                slow.append((begin_s, end_s))
        return slow


def _usual_durations(spans: Spans) -> dict[int, float]:
    """Seconds of a visit, by code, of the phases that have been visited often enough."""
    duration = spans.end_s - spans.begin_s
    by_code = {code: duration[spans.code == code] for code in spans.codes()}
    return {c: float(np.median(d)) for c, d in by_code.items() if len(d) >= _FEWEST_VISITS}


def _filling(updates: Updates, spans: Spans, low: Floats, high: Floats, long_s: float) -> Ints:
    """Code of the long visit that is all that each interval shows, or MIXED; (n,).

    What came before that visit must have settled. Short ones are left to the regression: a ramp of
    power inside them owes a good part of its energy to the lag.

    Args:
        low, high: what an interval shows lies between these, (n,) each.
    """
    new = np.concatenate([[True], spans.code[1:] != spans.code[:-1]])
    borders = spans.begin_s[new]
    quiet = np.searchsorted(borders, low, "right") == np.searchsorted(borders, high, "right")
    quiet &= np.isfinite(low) & (low >= spans.begin_s[0])
    after = np.searchsorted(borders, updates.time_s, "right")
    ends = np.append(borders[1:], spans.end_s[-1])
    within = np.clip(after - 1, 0, None)
    lasts = np.minimum(ends[within], updates.horizon_s) - borders[within]
    place = np.clip(np.searchsorted(spans.begin_s, updates.time_s, "right") - 1, 0, None)
    return np.where(quiet & (lasts >= long_s), spans.code[place], MIXED)
