"""Intervals between updates: which lie inside one long phase, and where in a cycle they end."""

from __future__ import annotations

import numpy as np

from .arrays import Bools, Floats, Ints
from .columns import MIXED, Columns
from .meter.updates import Updates
from .regression.blocks import DIRECT_J, DIRECT_S, LINES, MIXED_J, MIXED_S
from .spans import Spans

BINS = 20  # of the position of an update in a phase's cycle
_LONG_S = 2.0


def deciding(spans: Spans, updates: Updates) -> Spans:
    """The spans that the functions below look at: minutes of later ones may wait behind them."""
    late_s = np.maximum(updates.horizon_s, updates.time_s + updates.slack_s)
    return spans.until(float(late_s.max()))


def closely_dated(chain: Updates, most_slack_s: float) -> Bools:
    """Per interval between n + 1 updates, whether both ends are dated as well as most; (n,).

    Before a meter's rhythm is known, its updates lie in wide brackets.
    """
    close = chain.slack_s <= most_slack_s
    return np.asarray(close[1:] & close[:-1])


def long_phases(updates: Updates, chain: Updates, spans: Spans, settle_s: float) -> Ints:
    """Code of the phase of seconds that fills the interval before each update, or MIXED; (n,).

    What came before that phase must have settled. Short phases are left to the regression:
    a ramp of power inside them owes a good part of its energy to the lag.

    Args:
        updates: n of them.
        chain: the same, with the update before them in front where there is one.
        spans: of the time around them.
        settle_s: seconds after which the meter has forgotten the power before.
    """
    begin = np.concatenate([[np.nan], chain.time_s[:-1]])[-len(updates) :]
    slack = np.concatenate([[0.0], chain.slack_s[:-1]])[-len(updates) :]
    new = np.concatenate([[True], spans.code[1:] != spans.code[:-1]])
    borders = spans.begin_s[new]
    low = begin - settle_s - slack
    high = updates.time_s + updates.slack_s
    quiet = np.searchsorted(borders, low, "right") == np.searchsorted(borders, high, "right")
    quiet &= np.isfinite(low) & (low >= spans.begin_s[0])
    after = np.searchsorted(borders, updates.time_s, "right")
    ends = np.append(borders[1:], spans.end_s[-1])
    within = np.clip(after - 1, 0, None)
    lasts = np.minimum(ends[within], updates.horizon_s) - borders[within]
    place = np.clip(np.searchsorted(spans.begin_s, updates.time_s, "right") - 1, 0, None)
    return np.where(quiet & (lasts >= _LONG_S), spans.code[place], MIXED)


def ledger_rows(
    columns: Columns, time: Floats, joules: Floats, fresh: Bools, long_phase: Ints
) -> Floats:
    """Seconds and joules of intervals inside one phase, and of the mixed ones; (n, LINES, width).

    Args:
        time: seconds per interval and column, (n, width).
        joules: energy of each interval, (n,).
        fresh: where that is unknown, (n,).
        long_phase: as :func:`long_phases` says, (n,).
    """
    ledger = np.zeros((len(time), LINES, columns.width))
    good = ~fresh & (long_phase == MIXED)
    ledger[good, MIXED_S] = time[good]
    ledger[good, MIXED_J, 0] = joules[good]
    for code in np.unique(long_phase[~fresh & ~good]).tolist():
        inside = ~fresh & (long_phase == code)
        first = columns.first[code]
        ledger[inside, DIRECT_S, first] = time[inside][:, columns.slice_columns(code)].sum(1)
        ledger[inside, DIRECT_J, first] = joules[inside]
    return ledger


def occupancy_counts(updates: Updates, spans: Spans) -> dict[int, Ints]:
    """By phase code, how many updates fell into each twentieth of the phase's cycle; (BINS,)."""
    counts_of = {}
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
        counts = np.bincount(np.minimum((share * BINS).astype(np.int64), BINS - 1), minlength=BINS)
        counts_of[code] = counts
    return counts_of
