"""Streams that run beside the phases: columns that are added to theirs.

Communication under backward, a copy under forward: at any instant one phase runs, and some
stream may run beside it. Its columns are added to the phase's in the same rows, so their
power is what the stream *adds*, its incremental power. If it never runs but at the same place
of a phase the two are one column twice, and the gates refuse it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .columns import Columns, slices
from .design import Lane, Slices, Spans, cut

Floats = npt.NDArray[np.float64]

_NOTHING = -4  # no stream: two columns of its own in front, thrown away


class Beside:
    """Spans of one such stream, and their share of every row."""

    def __init__(self) -> None:
        self.spans = Spans.empty()
        self._lanes: dict[int, Lane] = {}

    def __len__(self) -> int:
        return len(self.spans)

    def feed(self, spans: Spans) -> None:
        """More spans, in order."""
        self.spans = self.spans.append(spans)

    def forget(self, until_s: float) -> None:
        """What ended by then is not needed again."""
        self.spans = self.spans.after(until_s)

    def allocate(self, columns: Columns) -> list[int]:
        """Give columns to codes that have none yet; which they were."""
        new = [c for c in self.spans.codes() if c not in columns.first]
        for code in new:
            mine = self.spans.code == code
            usual = float(np.median((self.spans.end_s - self.spans.begin_s)[mine]))
            begins = self.spans.begin_s[mine]
            cycle = float(np.median(np.diff(begins))) if len(begins) > 1 else usual
            columns.add(code, slices(usual, cycle))
        return new

    def pieces(self, begin_s: float, end_s: float, columns: Columns) -> Slices:
        """Slices that cover all the time between two instants, nothing included."""
        inside = self.spans.after(begin_s - 1.0).until(end_s + 1.0)
        first_s = min([begin_s - 1.0, *inside.begin_s[:1].tolist()])
        last_s = max([end_s + 1.0, *inside.end_s[-1:].tolist()])
        nothing = np.array([_NOTHING])
        first = Spans(np.array([first_s - 1.0]), np.array([first_s]), nothing)
        last = Spans(np.array([last_s]), np.array([last_s + 1.0]), nothing)
        whole = first.append(inside).append(last).filled(_NOTHING)
        shifted = Columns(
            {_NOTHING: 0} | {c: at + 2 for c, at in columns.first.items()},
            {_NOTHING: 1} | {c: at + 2 for c, at in columns.count_of.items()},
            {_NOTHING: 1} | columns.slices_of,
            columns.width + 2,
        )
        return cut(whole, shifted)

    def rows(
        self, lane: Lane, number: int, instants_s: Floats, pieces: Slices, width: int
    ) -> tuple[Floats, Floats]:
        """(rows, time) to be added to what ``lane`` is about to give for the same instants."""
        mine = self._lanes.get(number)
        if mine is None:
            mine = self._lanes[number] = Lane(lane.tau_s, lane.offset_s, lane.disturb)
            if lane.last_s is not None:
                mine.begin(lane.last_s, pieces, width + 2)
        rows, time = mine.rows(instants_s, pieces, width + 2)
        return rows[:, 2:], time[:, 2:]

    def within(self, low_s: Floats, high_s: Floats) -> npt.NDArray[np.bool_]:
        """Does it run at all between these instants?"""
        after = np.searchsorted(self.spans.end_s, low_s, "right")
        before = np.searchsorted(self.spans.begin_s, high_s, "left")
        return np.asarray(before > after)
