"""Columns for phases that are used for the first time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .columns import UNATTRIBUTED, Columns, slices
from .meter.updates import Updates
from .spans import Spans


def allocate(
    columns: Columns,
    codes: Sequence[int],
    spans: Spans,
    updates: Updates,
    reach_s: float,
    *,
    fine: bool,
) -> None:
    """Give columns to phases that have none yet, in the order of their first use.

    How long a phase is is judged by what was known when it was first used, so that it
    does not matter how the data were cut.

    Args:
        codes: the phases that the updates need.
        spans: all that are known, those of later times included.
        updates: the newest ones.
        reach_s: an update needs no span that begins later than this after it.
        fine: the meter has data enough for the shortest slices.
    """
    new = [code for code in codes if code not in columns.first]
    firsts = {code: float(spans.begin_s[spans.code == code][0]) for code in new}
    for code in sorted(new, key=firsts.__getitem__):
        user = int(np.searchsorted(updates.time_s + reach_s, firsts[code], "right"))
        known_s = float(updates.horizon_s[min(user, len(updates) - 1)])
        instances = (spans.code == code) & (spans.begin_s <= max(known_s, firsts[code]))
        begin, end = spans.begin_s[instances], spans.end_s[instances]
        usual = float(np.median(end - begin))  # the first one of a run may be long
        cycle = float(np.median(np.diff(begin))) if len(begin) > 1 else usual
        columns.add(code, 1 if code == UNATTRIBUTED else slices(usual, cycle, fine=fine))
