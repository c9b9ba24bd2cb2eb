"""From trials to verdicts: the result of ``probe compare`` (schema 1). Positive numbers are saved.

Nothing is a gain if the other side is worse in quality, missed the target, is not comparable, or
has too few runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from ..attribution.arrays import Floats
from ..model import Provenance
from ..target import Target
from .cell_rows import CellRows, without_verdicts
from .cells import Layout, energy_row, time_row
from .gain import EnergyGain, Gain, MemoryComponent, MemoryGain, Verdict
from .model import Comparison, ComparisonReport, TargetValue
from .phase_classes import PhaseClasses, moved
from .phase_gains import PhaseGains
from .quantity import ComparedQuantity, Frame, gain, pairs
from .reasons import reason
from .scaling import scaling
from .sides import Question, Side, early_gains, quality, sample_factors, technique_rows
from .statistics import contrast


def compare(
    base: Side,
    others: Sequence[Side],
    question: Question,
    problems: Sequence[Sequence[str]] = (),
    classes: PhaseClasses | None = None,
) -> ComparisonReport:
    """Compare every other side with the base.

    Args:
        classes: the classes of phases, if they were decided on other runs than the base's.
        problems: why each other side is not comparable with the base, if it is not.
    """
    classes = classes or PhaseClasses.of_base(base.trials)
    return ComparisonReport(
        base=base.named(),
        mode=question.mode,
        target=None if question.target is None else _target(question.target),
        unit=base.trials[0].unit,
        classes=classes.shares,
        classified=classes.classified,
        memory_separated=classes.memory_separated,
        not_separated_because=next(
            (each.uncounted for each in base.trials if each.uncounted), None
        ),
        comparisons=[
            _OfOneSide(base, other, question, classes, why).compared()
            for other, why in zip(others, problems or [()] * len(others), strict=True)
        ],
    )


def _target(target: Target) -> TargetValue:
    return TargetValue(target.metric, ">=" if target.higher else "<=", target.value)


class _OfOneSide:
    """One other side against the base."""

    def __init__(
        self,
        base: Side,
        other: Side,
        question: Question,
        classes: PhaseClasses,
        problems: Sequence[str],
    ):
        self._base, self._other, self._problems = base, other, problems
        trials = [*base.trials, *other.trials]
        self._layout = Layout.of(trials, classes)
        self._quality = quality(base, other, question)
        energies = {trial.energy for trial in trials}
        self._energy = energies.pop() if len(energies) == 1 else None
        missed = [sum(trial.reached is False for trial in side.trials) for side in (base, other)]
        self._frame = Frame(
            self._layout.cells,
            pairs(base.trials, other.trials),
            sample_factors(base, other, question),
            (missed[0], missed[1]),
            self._quality.ok,
            not problems,
            len({trial.meters for trial in trials}) == 1,
            max((trial.meter_error for trial in trials), default=0.0),
        )

    def compared(self) -> Comparison:
        """All that is known of the difference."""
        time = self._quantity(energy=False)
        joules = self._quantity(energy=True) if self._energy is not None else None
        time_s, energy_j = time.total(), self._energy_gain(joules)
        is_by_energy = joules is not None and self._energy is Provenance.MEASURED
        by = "energy" if is_by_energy else "time"
        total: Gain = energy_j if is_by_energy else time_s
        leader = joules if is_by_energy and joules is not None else time
        has_gain = total.verdict is not Verdict.NO_EVIDENCE and total.gain is not None
        four = leader.four() if has_gain else None
        shares = None if four is None else {name: share for name, (share, _) in four.items()}
        intervals = None if four is None else {name: limits for name, (_, limits) in four.items()}
        if shares is not None and intervals is not None and not self._memory_separated:
            shares["memory"] = intervals["memory"] = None
        phases = PhaseGains(self._base.trials, self._other.trials, self._frame, self._energy)
        cells = CellRows(
            self._layout,
            self._base.trials,
            self._other.trials,
            self._energy,
            leader if has_gain else None,
        )
        rows = scaling(self._base.trials, self._other.trials)
        return Comparison(
            other=self._other.named(),
            per_sample=phases.total(),
            phases=phases.rows(),
            phases_without=phases.left_out,
            time_s=time_s,
            energy_j=energy_j,
            memory_bytes=self._memory(),
            quality=self._quality,
            cells=[] if any(self._frame.missed) else cells.rows(time, joules),
            four=shares,
            four_intervals=intervals,
            four_rest=leader.rest() if has_gain else None,
            four_of=by,
            techniques=technique_rows(self._base, self._other),
            scaling=rows if len(rows) > 1 else [],
            early_at=early_gains(self._base, self._other, by, total.gain if has_gain else None),
            moved=moved(self._base.trials, self._other.trials),
            paired=bool(self._frame.pairs),
            runs=len(self._frame.pairs)
            or min(len(side.trials) for side in (self._base, self._other)),
            comparable=not self._problems,
            differs=list(self._problems),
            verdict=total.verdict,
            verdict_by=by,
            reason=reason(
                self._base, self._other, self._frame, self._quality, self._problems, total, by
            ),
        )

    @property
    def _memory_separated(self) -> bool:
        return self._layout.classes.memory_separated

    def _quantity(self, *, energy: bool) -> ComparedQuantity:
        row_of = energy_row if energy else time_row
        bases, others = (
            [row_of(trial, self._layout) for trial in side.trials]
            for side in (self._base, self._other)
        )
        return ComparedQuantity(self._frame, bases, others, metered=energy)

    def _energy_gain(self, joules: ComparedQuantity | None) -> EnergyGain:
        total = Gain() if joules is None else joules.total()
        if self._energy is Provenance.MODELLED:
            total = without_verdicts(total)
        return EnergyGain.of(total, self._energy)

    def _memory(self) -> MemoryGain:
        peaks = [
            [trial.memory.get("peak") for trial in side.trials]
            for side in (self._base, self._other)
        ]
        total = Gain()
        if not any(peak is None for side in peaks for peak in side):
            bases, others = ([float(peak or 0) for peak in side] for side in peaks)

            def pair(i: int, j: int) -> Floats:
                return np.array([bases[i] - others[j], bases[i]])

            measured = contrast(self._frame.pairs, len(bases), len(others), pair)
            base, saved = float(measured.value[1]), float(measured.value[0])
            total = replace(
                gain(measured, 0, self._frame, base=base, is_total=True),
                base=base,
                other=base - saved,
            )
        names = [name for name in self._base.trials[0].memory if name != "peak"]
        components = [
            MemoryComponent(name, *(_mean_memory(side, name) for side in (self._base, self._other)))
            for name in names
        ]
        return MemoryGain.of(total, components)


def _mean_memory(side: Side, component: str) -> float | None:
    if any(component not in trial.memory for trial in side.trials):
        return None
    return fmean(trial.memory[component] for trial in side.trials)
