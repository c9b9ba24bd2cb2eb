"""Intervals between updates: how well they are dated, what they hold, where in a cycle they end."""

from __future__ import annotations

import numpy as np

from .arrays import Bools, Floats, Ints
from .columns import MIXED, Columns
from .meter.updates import Updates
from .regression.blocks import DIRECT_J, DIRECT_S, LINES, MIXED_J, MIXED_S
from .spans import Spans

BINS = 20  # of the position of an update in a phase's cycle


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


def enough(updates: Updates, long_phase: Ints, most: int, most_s: float) -> int:
    """How many of the updates hold ``most`` intervals of several phases, or ``most_s`` of them.

    One more than there are if they do not. ``long_phase``: the phase that fills an interval, (n,).
    """
    mixed = long_phase == MIXED
    mixed_s = np.cumsum(np.where(mixed, np.diff(updates.time_s, prepend=updates.time_s[0]), 0.0))
    shown = (np.cumsum(mixed) >= most) | (mixed_s > most_s)
    return int(np.argmax(shown)) + 1 if shown.any() else len(updates) + 1


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
