"""One quantity of a comparison, seconds or joules: its total and its cells, with verdicts.

The total is a gain only if its 95 % interval lies above zero. Of cells, where many questions are
asked at once, verdicts are adjusted (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..attribution.arrays import Floats
from . import phase_classes as kinds
from .cells import COST, GAIN, PROGRESS, Place, Row, differences
from .gain import Bound, Gain, Interval, Verdict, closed
from .run_record import EARLY, Trial
from .statistics import FEWEST_RUNS, Contrast, contrast, holm

FOUR = ("early", "gradient", "memory", "communication", "rest")
REST = (kinds.COMPUTE, kinds.WAITING, kinds.OVERHEAD, kinds.UNCLASSIFIED, kinds.UNIDENTIFIED)
_LATE = {
    kinds.GRADIENT_HEAVY: "gradient",
    kinds.MEMORY_BOUND: "memory",
    kinds.COMMUNICATION: "communication",
}
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Frame:
    """How runs of two sides are compared.

    ``pairs``: places of runs that share a block, or empty; ``factors`` (bases, others): by what the
    other run's work is scaled to the base's; ``missed``: runs of either side that did not reach
    the target; ``quality_ok``: False if the other side is worse; ``comparable``: whether any
    verdict may be given; ``same_meters``: whether all runs were read by the same ones;
    ``meter_error``: how far these may be off, as a share.
    """

    cells: tuple[Place, ...]
    pairs: Sequence[tuple[int, int]]
    factors: Floats
    missed: tuple[int, int]
    quality_ok: bool | None
    comparable: bool
    same_meters: bool
    meter_error: float

    def allows(self, verdict: Verdict) -> Verdict:
        """A verdict, unless something forbids it."""
        if not self.comparable or (verdict is Verdict.GAIN and self.quality_ok is False):
            return Verdict.NO_EVIDENCE
        return verdict

    def meter_half(self, value: float, base: float) -> float:
        """What a wrong meter could add to a gain of joules over ``base``, as a half-width.

        The scale error of one and the same meter is a share of the gain: it never turns its sign.
        """
        if self.same_meters:
            return self.meter_error * abs(value)
        return self.meter_error * math.hypot(base, base - value)


class ComparedQuantity:
    """Of all runs; ``metered``: it was read by meters, which may be off."""

    def __init__(self, frame: Frame, bases: Sequence[Row], others: Sequence[Row], *, metered: bool):
        self._frame, self._metered = frame, metered
        self._width = len(frame.cells) + 1
        parts = [
            EARLY if stage == EARLY else _LATE.get(kind, "rest") for stage, kind in frame.cells
        ]
        rest = [
            kind if part == "rest" else ""
            for part, (_, kind) in zip(parts, frame.cells, strict=True)
        ]

        def pair(i: int, j: int) -> Floats:
            cells = differences(bases[i], others[j].scaled(float(frame.factors[i, j])))
            gained = cells[GAIN, :-1]
            four = [gained[[name == part for name in parts]].sum() for part in FOUR]
            of_rest = [gained[[name == kind for name in rest]].sum() for kind in REST]
            base_row = bases[i].all
            return np.concatenate([cells.ravel(), base_row, [base_row.sum()], four, of_rest])

        self._contrast = contrast(frame.pairs, len(bases), len(others), pair)
        self._p = self._contrast.p_values()

    def total(self) -> Gain:
        """The gain of the whole run; a bound if a run missed the target."""
        result = self._gain(self._width - 1, is_total=True)
        base_missed, other_missed = self._frame.missed
        if not (base_missed or other_missed) or result.gain is None:
            return result
        # What a run that missed the target has cost so far bounds what reaching it costs.
        low, high = result.interval or (None, None)
        low, high = None if other_missed else low, None if base_missed else high
        lost = high is not None and high < 0 and self._contrast.has_error
        # Two bounds from below say nothing of their difference.
        both = base_missed and other_missed
        return Gain(
            interval=None if low is None and high is None else (low, high),
            bound=None if both else Bound(result.gain, "at most" if other_missed else "at least"),
            base=result.base,
            other=result.other,
            verdict=self._frame.allows(Verdict.LOSS) if lost else Verdict.NO_EVIDENCE,
        )

    def cells(self) -> list[Gain]:
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

        def verdict(part: int, at: int) -> Verdict:
            # Without progress the cost is the gain: one question, one verdict.
            column = part * self._width + at
            asked = column if column in adjusted else GAIN * self._width + at
            clear = adjusted.get(asked, 1.0) < _ALPHA and (part != PROGRESS or column in adjusted)
            value = float(self._contrast.value[column])
            return self._frame.allows(sign_of(value, value) if clear else Verdict.NO_EVIDENCE)

        return [
            replace(
                self._gain(at),
                verdict=verdict(GAIN, at),
                progress_verdict=verdict(PROGRESS, at),
                cost_verdict=verdict(COST, at),
            )
            for at in range(count)
        ]

    def share(self, column: int) -> tuple[float | None, Interval | None]:
        """Share of a column in the total's gain, with Fieller's interval."""
        total = float(self._contrast.value[self._width - 1])
        limits = self._contrast.ratio(column, self._width - 1)
        return float(self._contrast.value[column]) / total if total else None, limits

    def four(self) -> dict[str, tuple[float | None, Interval | None]]:
        """Shares of the gain by the four kinds of phase, and the rest."""
        first = 4 * self._width
        return {name: self.share(first + place) for place, name in enumerate(FOUR)}

    def rest(self) -> dict[str, float]:
        """Shares of the gain by the classes that the rest consists of."""
        first = 4 * self._width + len(FOUR)
        shares = {name: self.share(first + place)[0] for place, name in enumerate(REST)}
        return {name: share for name, share in shares.items() if share is not None}

    def _asks(self, part: int, at: int) -> bool:
        """Progress that is nothing in every pair is no question, and then cost is the gain."""
        progress = PROGRESS * self._width + at
        nothing = all(not group[:, progress].any() for group in self._contrast.groups)
        gained = any(group[:, at].any() for group in self._contrast.groups)
        return gained if part == GAIN else not nothing

    def _meter_half(self, part: int, at: int) -> float:
        value = float(self._contrast.value[part * self._width + at])
        if not self._metered:
            return 0.0
        if part == PROGRESS:
            return self._frame.meter_error * abs(value)
        return self._frame.meter_half(value, self._base(at))

    def _base(self, at: int) -> float:
        """Mean of the base, of the pairs that are compared."""
        return float(self._contrast.value[3 * self._width + at])

    def _beyond(self, column: int) -> float:
        """P-value of a cell's difference, as far as another meter cannot explain it."""
        part, at = divmod(column, self._width)
        if self._frame.same_meters or not self._metered or part == PROGRESS:
            return float(self._p[column])
        return p_beyond(self._contrast, column, self._meter_half(part, at))

    def _gain(self, at: int, *, is_total: bool = False) -> Gain:
        base = self._base(at)
        result, progress, cost = (
            gain(
                self._contrast,
                part * self._width + at,
                self._frame,
                base=base if part == GAIN else 0.0,
                is_total=is_total,
                meter_half=self._meter_half(part, at),
            )
            for part in (GAIN, PROGRESS, COST)
        )
        return replace(
            result,
            progress=progress.gain,
            progress_interval=closed(progress.interval),
            progress_verdict=progress.verdict,
            cost=cost.gain,
            cost_interval=closed(cost.interval),
            cost_verdict=cost.verdict,
            base=base,
            other=base - float(self._contrast.value[at]),
        )


def gain(
    measured: Contrast,
    column: int,
    frame: Frame,
    *,
    base: float = 0.0,
    is_total: bool = False,
    meter_half: float = 0.0,
) -> Gain:
    """One column as a gain. Without enough runs, or any spread between them, it has no interval.

    Args:
        base: what the gain is a percentage of.
        is_total: a total, for which a bootstrap is worth its time.
        meter_half: what a meter's error adds to the half-width.
    """
    value = float(measured.value[column])
    percent = 100 * value / base if base else None
    if not measured.has_error:
        return Gain(gain=value, percent=percent)
    half = float(measured.half()[column])
    low, high = value - half, value + half
    if is_total:
        low, high = measured.bootstrap(column) or (low, high)
    interval = (
        value - math.hypot(value - low, meter_half),
        value + math.hypot(high - value, meter_half),
    )
    # A scale error common to both sides cannot change the sign.
    limits = (low, high) if frame.same_meters else interval
    return Gain(
        gain=value,
        interval=interval if interval[0] < interval[1] else None,
        percent=percent,
        verdict=frame.allows(sign_of(*limits)),
    )


def p_beyond(measured: Contrast, column: int, half: float) -> float:
    """P-value of a column's difference, made smaller by what a meter's error could add to it."""
    value = measured.value.copy()
    rest = abs(value[column]) - half
    if rest <= 0:
        return 1.0
    value[column] = rest
    return float(replace(measured, value=value).p_values()[column])


def sign_of(low: float, high: float) -> Verdict:
    """The verdict on a difference that lies between these limits."""
    return Verdict.GAIN if low > 0 else Verdict.LOSS if high < 0 else Verdict.NO_EVIDENCE


def pairs(bases: Sequence[Trial], others: Sequence[Trial]) -> list[tuple[int, int]]:
    """Places of runs that share a block, if all of the smaller side do, and enough; else none."""
    place_of = {trial.block: at for at, trial in enumerate(bases) if trial.block is not None}
    theirs = {trial.block: at for at, trial in enumerate(others) if trial.block is not None}
    if len(place_of) != len(bases) or len(theirs) != len(others):
        return []
    both = [block for block in place_of if block in theirs]
    fits = len(both) >= FEWEST_RUNS and len(both) == min(len(place_of), len(theirs))
    return [(place_of[block], theirs[block]) for block in both] if fits else []
