"""Rows of figures that both sides have: means, the change between them, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...attribution.arrays import Floats
from ..gain import Gain, Interval, closed, percent_of
from ..quantity import pairs
from ..run_record import Trial
from ..statistics import FEWEST_RUNS, contrast
from .model import NOT_MEASURED, PaperFigures, PaperRow

ONE_RUN = "one run a side"
NO_SPREAD = "no spread"
TARGET_MISSED = "target missed"


def why_no_interval(base: Sequence[Trial], other: Sequence[Trial]) -> str:
    """Why runs of two sides give no interval, where they give none."""
    return ONE_RUN if min(len(base), len(other)) < FEWEST_RUNS else NO_SPREAD


def measured_row(
    what: str,
    unit: str,
    base: Sequence[Trial],
    other: Sequence[Trial],
    of: Callable[[Trial], float | None],
    paper: PaperFigures | None = None,
    kind: type[PaperRow] = PaperRow,
) -> PaperRow:
    """Means of what each run has; "not measured" on a side where a run lacks it."""
    row = kind(what=what, unit=unit, paper=paper)
    sides = [
        [value for trial in side if (value := of(trial)) is not None] for side in (base, other)
    ]
    ours, theirs = sides
    complete = [
        bool(side) and len(ours) == len(side)
        for side, ours in zip((base, other), sides, strict=True)
    ]
    if not all(complete):
        means = [
            float(np.mean(values)) if whole else None
            for values, whole in zip(sides, complete, strict=True)
        ]
        return replace(row, base=means[0], other=means[1], ours=NOT_MEASURED)

    def pair(i: int, j: int) -> Floats:
        return np.array([theirs[j] - ours[i], ours[i], theirs[j]])

    measured = contrast(pairs(base, other), len(ours), len(theirs), pair)
    change, mean, other_mean = map(float, measured.value)
    half = float(measured.half()[0])
    interval = (change - half, change + half) if measured.has_error and half > 0 else None
    return changed(
        row, mean, other_mean, interval, None if interval else why_no_interval(base, other)
    )


def changed(
    row: PaperRow, base: float, other: float, interval: Interval | None, no_interval: str | None
) -> PaperRow:
    """A row with the figures of both sides, and the change with its interval."""
    shown = base != 0
    return replace(
        row,
        base=base,
        other=other,
        change=other - base,
        interval_change=interval,
        percent=100 * (other - base) / abs(base) if shown else None,
        interval_percent=_percents(interval, base) if interval and shown else None,
        no_interval=no_interval,
    )


def _percents(change: Interval, base: float) -> Interval | None:
    low, high = change
    saved = closed(percent_of(abs(base), (-high, -low)))
    return saved and (-saved[1], -saved[0])


def gain_row(
    what: str,
    unit: str,
    gained: Gain,
    per_unit: float,
    no_interval: str,
    paper: PaperFigures | None = None,
) -> PaperRow:
    """A total of the comparison; ``per_unit`` is how many s, J or bytes make one ``unit``."""
    row = PaperRow(what=what, unit=unit, paper=paper)
    if gained.gain is None or gained.base is None or gained.other is None:
        missed = gained.bound is not None or gained.base is not None
        return replace(row, ours=TARGET_MISSED if missed else NOT_MEASURED)
    limits = closed(gained.interval)
    interval = None if limits is None else (-limits[1] / per_unit, -limits[0] / per_unit)
    return replace(
        changed(
            row,
            gained.base / per_unit,
            gained.other / per_unit,
            interval,
            None if interval else no_interval,
        ),
        verdict=str(gained.verdict),
    )
