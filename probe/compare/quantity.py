"""One quantity of a comparison, seconds or joules: its total and its cells, with verdicts.

A gain is called only if its 95 % interval lies above zero. Of cells, where many questions are
asked at once, verdicts are adjusted (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..attribution.arrays import Floats
from . import phase_classes as kinds
from .cells import COST, GAIN, PROGRESS, Cell, Row, differences
from .run_record import EARLY, Trial
from .statistics import Contrast, contrast, holm

GAINED, LOST, NO_EVIDENCE = "gain", "loss", "no evidence"
FOUR = ("early", "gradient", "memory", "communication", "rest")
_LATE = {
    kinds.GRADIENT_HEAVY: "gradient",
    kinds.MEMORY_BOUND: "memory",
    kinds.COMMUNICATION: "communication",
}
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Frame:
    """How runs of two sides are held against each other.

    ``pairs``: places of runs that share a block, or empty; ``factors`` (bases, others): by what the
    other run's work is scaled to the base's; ``missed``: runs of either side that did not reach
    the target; ``quality_ok``: False if the other side is worse; ``comparable``: whether anything
    may be called at all; ``same_meters``: whether all runs were read by the same ones;
    ``meter_error``: how far these may be off, as a share.
    """

    cells: tuple[Cell, ...]
    pairs: Sequence[tuple[int, int]]
    factors: Floats
    missed: tuple[int, int]
    quality_ok: bool | None
    comparable: bool
    same_meters: bool
    meter_error: float

    def allows(self, verdict: str) -> str:
        """A verdict, unless something forbids it."""
        if not self.comparable or (verdict == GAINED and self.quality_ok is False):
            return NO_EVIDENCE
        return verdict


class ComparedQuantity:
    """Of all runs; ``shared``: it is read by meters that may be off by ``Frame.meter_error``."""

    def __init__(
        self,
        frame: Frame,
        bases: Sequence[Row],
        others: Sequence[Row],
        *,
        shared: bool,
        alone_half: float = 0.0,
    ):
        """``alone_half``: half-width of what one run against one run tells."""
        self._frame, self._shared = frame, shared
        self._alone = alone_half
        self._width = len(frame.cells) + 1
        parts = [
            EARLY if stage == EARLY else _LATE.get(kind, "rest") for stage, kind in frame.cells
        ]

        def pair(i: int, j: int) -> Floats:
            cells = differences(bases[i], others[j].scaled(float(frame.factors[i, j])))
            four = [
                sum(cells[GAIN, at] for at, name in enumerate(parts) if name == part)
                for part in FOUR
            ]
            base_row = bases[i].all
            return np.concatenate([cells.ravel(), base_row, [base_row.sum()], four])

        self._contrast = contrast(frame.pairs, len(bases), len(others), pair)
        self._p = self._contrast.p_values()

    def as_json(self) -> dict[str, Any]:
        """The gain of the total as JSON: base, other, gain, interval, progress, cost, verdict."""
        total = self._width - 1
        base_missed, other_missed = self._frame.missed
        result = self._gain(total, is_total=True)
        if not (base_missed or other_missed):
            return result
        # What a run that missed the target has cost so far bounds what reaching it costs.
        low, high = result["interval"] or (None, None)
        low, high = None if other_missed else low, None if base_missed else high
        lost = high is not None and high < 0 and self._contrast.has_error
        return nothing() | {
            "interval": None if low is None and high is None else [low, high],
            # Two bounds from below say nothing of their difference.
            "bound": None
            if base_missed and other_missed
            else {"gain": result["gain"], "is": "at most" if other_missed else "at least"},
            "base": result["base"],
            "other": result["other"],
            "verdict": self._frame.allows(LOST) if lost else NO_EVIDENCE,
        }

    def cells(self) -> list[dict[str, Any]]:
        """Of every cell; verdicts adjusted for all that is asked of them together."""
        count = self._width - 1
        columns = [
            part * self._width + at
            for at in range(count)
            for part in (GAIN, PROGRESS, COST)
            if self._asks(part, at)
        ]
        sized = {column: self._beyond(column) for column in columns}
        adjusted = dict(zip(columns, holm([sized[column] for column in columns]), strict=True))
        rows = []
        for at in range(count):
            row = self._gain(at)
            for part, key in (
                (GAIN, "verdict"),
                (PROGRESS, "progress_verdict"),
                (COST, "cost_verdict"),
            ):
                # Without progress the cost is the gain: one question, one verdict.
                column = part * self._width + at
                asked = column if column in adjusted else GAIN * self._width + at
                clear = adjusted.get(asked, 1.0) < _ALPHA and (
                    part != PROGRESS or column in adjusted
                )
                value = float(self._contrast.value[column])
                row[key] = self._frame.allows(_called(value, value) if clear else NO_EVIDENCE)
            rows.append(row)
        return rows

    def share(self, column: int) -> tuple[float | None, list[float] | None]:
        """Share of a column in the total's gain, with Fieller's interval."""
        total = float(self._contrast.value[self._width - 1])
        limits = self._contrast.ratio(column, self._width - 1)
        return (
            float(self._contrast.value[column]) / total if total else None,
            list(limits) if limits is not None else None,
        )

    def four(self) -> dict[str, tuple[float | None, list[float] | None]]:
        """Shares of the gain by the four kinds of phase, and the rest."""
        first = 4 * self._width
        return {name: self.share(first + place) for place, name in enumerate(FOUR)}

    def _asks(self, part: int, at: int) -> bool:
        """Progress that is nothing in every pair is no question, and then cost is the gain."""
        progress = PROGRESS * self._width + at
        nothing = all(not group[:, progress].any() for group in self._contrast.groups)
        gained = any(group[:, at].any() for group in self._contrast.groups)
        return gained if part == GAIN else not nothing

    def _shared_half(self, part: int, at: int) -> float:
        """What a wrong meter could add; scale errors of one and the same meter never turn signs."""
        if not self._shared:
            return 0.0
        value = abs(float(self._contrast.value[part * self._width + at]))
        if self._frame.same_meters or part == PROGRESS:
            return self._frame.meter_error * value
        return self._frame.meter_error * math.hypot(*self._sides(at))

    def _sides(self, at: int) -> tuple[float, float]:
        """Means of the base and of the other side, scaled to the base's work."""
        base = float(self._contrast.value[3 * self._width + at])
        return base, base - float(self._contrast.value[at])

    def _beyond(self, column: int) -> float:
        """P-value of a cell's difference, as far as another meter cannot explain it."""
        part, at = divmod(column, self._width)
        if self._frame.same_meters or not self._shared or part == PROGRESS:
            return float(self._p[column])
        value = self._contrast.value.copy()
        rest = abs(value[column]) - self._shared_half(part, at)
        if rest <= 0:
            return 1.0
        value[column] = rest
        return float(replace(self._contrast, value=value).p_values()[column])

    def _gain(self, at: int, *, is_total: bool = False) -> dict[str, Any]:
        base, other = self._sides(at)
        result = gain(
            self._contrast,
            at,
            self._frame,
            shared_half=self._shared_half(GAIN, at),
            base=base,
            is_total=is_total,
            alone_half=self._alone if is_total else 0.0,
        )
        for part, name in ((PROGRESS, "progress"), (COST, "cost")):
            column = part * self._width + at
            absolute = gain(
                self._contrast,
                column,
                self._frame,
                is_total=is_total,
                shared_half=self._shared_half(part, at),
            )
            result |= {
                name: absolute["gain"],
                f"{name}_interval": absolute["interval"],
                f"{name}_verdict": absolute["verdict"],
            }
        return result | {"base": base, "other": other}


def gain(
    measured: Contrast,
    column: int,
    frame: Frame,
    *,
    base: float = 0.0,
    is_total: bool = False,
    shared_half: float = 0.0,
    alone_half: float = 0.0,
) -> dict[str, Any]:
    """One column as G.

    Args:
        base: what the gain is a percentage of.
        is_total: a total, for which a bootstrap is worth its time.
        shared_half: what a meter's error adds to the half-width.
        alone_half: half-width of what one run against one run tells.
    """
    value = float(measured.value[column])
    half = float(measured.half()[column]) if measured.has_error else alone_half
    low, high = value - half, value + half
    if measured.has_error and is_total:
        low, high = measured.bootstrap(column) or (low, high)
    interval = [
        value - math.hypot(value - low, shared_half),
        value + math.hypot(high - value, shared_half),
    ]
    verdict = NO_EVIDENCE
    if measured.has_error:  # a scale error common to both sides cannot change the sign
        verdict = _called(low, high) if frame.same_meters else _called(*interval)
    return {
        "gain": value,
        "interval": interval,
        "percent": 100 * value / base if base else None,
        "progress": None,
        "cost": None,
        "verdict": frame.allows(verdict),
    }


def nothing() -> dict[str, Any]:
    """The JSON of a gain that is not known."""
    return {
        "gain": None,
        "interval": None,
        "percent": None,
        "progress": None,
        "cost": None,
        "verdict": NO_EVIDENCE,
    }


def _called(low: float, high: float) -> str:
    """The verdict on a difference that lies between these limits."""
    return GAINED if low > 0 else LOST if high < 0 else NO_EVIDENCE


def pairs(bases: Sequence[Trial], others: Sequence[Trial]) -> list[tuple[int, int]]:
    """Places of runs that share a block: all runs of the smaller side, two at least; else none."""
    place_of = {trial.block: at for at, trial in enumerate(bases) if trial.block is not None}
    theirs = {trial.block: at for at, trial in enumerate(others) if trial.block is not None}
    if len(place_of) != len(bases) or len(theirs) != len(others):
        return []
    both = [block for block in place_of if block in theirs]
    fits = len(both) >= 2 and len(both) == min(len(place_of), len(theirs))
    return [(place_of[block], theirs[block]) for block in both] if fits else []
