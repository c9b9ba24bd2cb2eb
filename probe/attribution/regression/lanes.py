"""Lanes: the rows of a run under one response, summed up.

A row is [energy, what is not known of the response, columns of the phases]. What is not known of
the response needs the slices' powers; those of the last time that the lane was solved are taken.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Bools, Floats
from ..response.nuisance import EXTRAS, SLOW_PLACES, Tie, response_columns, slow_columns
from ..response.response import Kind, Response
from ..response.shown import ShownTime
from .blocks import Blocks, Innovations

GAINS = (0.0, 0.12, 0.25, 0.45)  # of the innovations filter


@dataclass(frozen=True, slots=True)
class LikelyLanes:
    """Lanes to open: responses, the likeliest first, with powers per column in W, and gains."""

    lanes: list[tuple[Response, Tie, Floats]] = field(default_factory=list)
    gains: tuple[float, ...] = GAINS
    # A response far from all of these explains what was seen about as well.
    ambiguous: bool = False


@dataclass(slots=True)
class Lane:
    """One assumption about the response and the drift, with its normal equations."""

    response: Response
    tie: Tie
    gain: float  # of the innovations filter
    power_w: Floats  # (width,) of the columns, as its rows assume them
    blocks: Blocks
    blur_s2: Floats  # (width, width) what errors of the instants add to the gram matrix
    extras: int = EXTRAS  # columns between the energy and the phases'
    late_w: Floats | None = None  # (SLOW_S,) power that slow parts of the signal show by now

    @classmethod
    def empty(cls, response: Response, tie: Tie, gain: float, power_w: Floats) -> Lane:
        """A lane without rows."""
        width = len(power_w)
        extras = 0 if tie is Tie.EXACT else EXTRAS
        return cls(
            response, tie, gain, power_w, Blocks(width, extras), np.zeros((width, width)), extras
        )

    def has_rows_of(self, other: Lane) -> bool:
        """True if its rows are those of another lane, before they are filtered."""
        same = self.response == other.response and self.extras == other.extras
        return same and np.array_equal(self.power_w, other.power_w)

    def widen(self, width: int) -> None:
        """Make room for new columns, whose power is taken to be that of the others."""
        more = width - len(self.power_w)
        if more > 0:
            self.power_w = np.append(self.power_w, np.full(more, self.power_w.mean()))
            self.blur_s2 = np.pad(self.blur_s2, ((0, more), (0, more)))
        self.blocks.widen(width)


def lane_rows(shown: ShownTime, ends_s: Floats, lane: Lane) -> Floats:
    """Rows of the n intervals between successive ``ends_s`` (n + 1,); (n, extras + width).

    They follow those that the lane had before.
    """
    slices = shown.slices
    watts = lane.power_w[slices.column]
    rows = shown.rows(ends_s, lane.response)
    begun = np.flatnonzero(slices.border >= 0)
    if len(begun):
        places = np.unique(slices.border[begun])
        steps = np.zeros((len(places), len(slices)))
        # Power that moves later than the mark leaves the step's energy out.
        place = np.searchsorted(places, slices.border[begun])
        steps[place, begun] = watts[begun - 1] - watts[begun]
        rows[:, places] = shown.crossings(steps, ends_s, lane.response)
    if not lane.extras:
        return rows
    of_response, shown_j = response_columns(shown, watts, ends_s, lane.response)
    slow, lane.late_w = slow_columns(shown_j, np.diff(ends_s), lane.late_w)
    of_response[:, SLOW_PLACES] = slow
    return np.concatenate([of_response, rows], axis=1)


def add_blur(lane: Lane, shown: ShownTime, ends_s: Floats, sigma_s: Floats, used: Bools) -> None:
    """Add what errors of the n + 1 instants ``ends_s`` do to the gram matrix of the used rows.

    An instant that is late by e moves e times what the sensor saw then from one row to the next;
    of a part-time sensor it moves the one window that ends there.
    """
    part_time = lane.response.kind is Kind.PART_TIME
    seen = shown.composition(ends_s, lane.response)
    weight = np.zeros(len(ends_s))
    weight[1:] += used
    if not part_time:
        weight[:-1] += used
    part = seen * (sigma_s * np.sqrt(weight))[:, None]
    lane.blur_s2 += _noise_gain(lane.gain, differences=not part_time) * part.T @ part


@functools.cache
def _noise_gain(gain: float, *, differences: bool) -> float:
    """How much more white noise, or its differences, vary once they are filtered."""
    if gain == 0:
        return 1.0
    keep = Innovations.PHI * (1 - gain)
    answer = np.append(1.0, -Innovations.PHI * gain * keep ** np.arange(200))
    if differences:
        answer = np.diff(np.concatenate([[0.0], answer, [0.0]]))
    return float((answer**2).sum() / (2 if differences else 1))


def add_rows(
    lane: Lane,
    filters: Innovations,
    rows: Floats,
    joules: Floats,
    time_s: Floats,
    keep: Bools,
    ledger: Floats | None = None,
) -> None:
    """Add n rows to a lane.

    Args:
        filters: of the lane's gain alone.
        rows: (n, extras + width).
        joules, time_s: energy of each interval, and when it ended, (n,).
        keep: the rows that may be used, (n,).
        ledger: what each interval adds to the lane's ledger, (n, LINES, width).
    """
    filtered = filters.filter(np.concatenate([joules[keep, None], rows[keep]], axis=1))[0]
    used = np.flatnonzero(keep)
    used = used[len(used) - len(filtered) :]  # the first one only sets the filter
    of_rows = None
    if ledger is not None:  # what lies between two rows goes with the later
        total = np.concatenate([np.zeros((1, *ledger.shape[1:])), ledger.cumsum(0)])
        until = total[np.append(0, used + 1)]
        of_rows = np.diff(until, axis=0)
    lane.blocks.add(filtered, time_s[used], of_rows)
    if of_rows is not None:
        lane.blocks.note(total[-1] - until[-1])
