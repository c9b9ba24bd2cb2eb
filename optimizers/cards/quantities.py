"""What pairs of runs say of time, joules, memory and quality: each a gain, with its p-value.

Gains, intervals and verdicts are those of ``probe compare``. It gives no p-values, which several
questions at once need: here they are of the same differences between pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from probe.compare.cells import Layout, Row, energy_row, time_row
from probe.compare.comparison import compare
from probe.compare.gain import Gain, Verdict
from probe.compare.model import Comparison, ComparisonReport
from probe.compare.phase_classes import PhaseClasses
from probe.compare.quantity import Frame, gain, p_beyond
from probe.compare.run_record import Trial
from probe.compare.sides import Question, Side, final_values, sample_factors
from probe.compare.statistics import holm, paired
from probe.model import Provenance

from .model import Measured

ALPHA = 0.05
TIME, ENERGY, MEMORY, QUALITY = "time", "energy", "memory", "quality"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Runs without and with a technique; those at the same place share a seed.

    ``problems`` says why the sides are not comparable, if they are not.
    """

    base: Sequence[Trial]
    other: Sequence[Trial]
    question: Question
    problems: Sequence[str] = ()

    def compared(self) -> ComparisonReport:
        """By ``probe compare``, as it is: no gain where the quality is worse."""
        return self._by(self.question)

    def regardless_of_quality(self) -> Comparison:
        """The same where a worse quality takes no gain away: it is a question of its own."""
        return self._by(replace(self.question, tolerance=math.inf)).comparisons[0]

    def _by(self, question: Question) -> ComparisonReport:
        return compare(
            Side("base", self._in_blocks(self.base)),
            [Side("with it", self._in_blocks(self.other))],
            question,
            [self.problems],
        )

    def _in_blocks(self, trials: Sequence[Trial]) -> list[Trial]:
        return [replace(trial, block=str(at)) for at, trial in enumerate(trials)]


def measured(pairs: Pairs) -> list[Measured]:
    """Each quantity by itself; :func:`adjusted` adds what several questions at once need."""
    comparison = pairs.regardless_of_quality()
    of_time = _p(pairs, _totals(pairs, time_row))
    rows = [_row(TIME, comparison.time_s, of_time)]
    if comparison.energy_j.provenance is Provenance.MEASURED:
        rows.append(_row(ENERGY, comparison.energy_j, _p(pairs, _totals(pairs, energy_row), True)))
    peaks = [[trial.memory.get("peak") for trial in side] for side in (pairs.base, pairs.other)]
    rows.append(_row(MEMORY, comparison.memory_bytes, _p(pairs, peaks)))
    rows.append(_quality(pairs))
    return rows


def adjusted(cards: Sequence[Sequence[Measured]]) -> tuple[list[list[Measured]], int]:
    """(the cards with adjusted verdicts, number of questions), over all quantities of all cards.

    What is the same in every pair is no question. A verdict needs p < 5 % after Holm's adjustment,
    so that the chance of any false one among all cards is 5 %.
    """
    asked = [row.p for rows in cards for row in rows if row.p is not None]
    raised = iter(holm(asked)) if asked else iter(())
    result = []
    for rows in cards:
        adjusted_rows = []
        for row in rows:
            p = None if row.p is None else float(next(raised))
            sure = p is not None and p < ALPHA
            adjusted_rows.append(
                replace(
                    row, adjusted_p=p, adjusted_verdict=row.verdict if sure else Verdict.NO_EVIDENCE
                )
            )
        result.append(adjusted_rows)
    return result, len(asked)


def _row(quantity: str, saved: Gain, p: float | None) -> Measured:
    return Measured(
        quantity=quantity,
        base=saved.base,
        other=saved.other,
        gain=saved.gain,
        interval=saved.interval,
        percent=saved.percent,
        verdict=saved.verdict,
        p=p,
    )


_Values = Sequence[Sequence[float | None]]  # of the base, and of the other side


def _totals(pairs: Pairs, row_of: Callable[[Trial, Layout], Row]) -> _Values:
    """What each run used; at equal work the other one as if it had trained as much as its base."""
    layout = Layout.of([*pairs.base, *pairs.other], PhaseClasses.of_base(pairs.base))
    factors = sample_factors(Side("", pairs.base), Side("", pairs.other), pairs.question)
    bases = [float(row_of(trial, layout).all.sum()) for trial in pairs.base]
    others = [
        float(row_of(trial, layout).scaled(float(factors[at, at])).all.sum())
        for at, trial in enumerate(pairs.other)
    ]
    return bases, others


def _p(pairs: Pairs, values: _Values, is_metered: bool = False) -> float | None:
    """P-value of no difference; None where nothing is asked: no spread, a value lacks, one pair."""
    bases, others = ([value for value in side if value is not None] for side in values)
    if len(bases) != len(pairs.base) or len(others) != len(pairs.other):
        return None
    contrast = paired(np.subtract(bases, others)[:, None])
    if not contrast.has_error or not contrast.groups[0].any():
        return None
    frame = _frame(pairs)
    if not is_metered or frame.same_meters:
        return float(contrast.p_values()[0])
    return p_beyond(contrast, 0, frame.meter_half(float(contrast.value[0]), float(np.mean(bases))))


def _quality(pairs: Pairs) -> Measured:
    """The final value; a verdict only beyond the tolerance of ``probe compare``."""
    values = final_values(pairs.base, pairs.other, pairs.question)
    bases, others = ([value for value in side if value is not None] for side in values)
    higher = pairs.question.higher
    if higher is None or len(bases) != len(pairs.base) or len(others) != len(pairs.other):
        return _row(QUALITY, Gain(), None)
    sign = 1.0 if higher else -1.0
    better = sign * np.subtract(others, bases)[:, None]
    base, other = float(np.mean(bases)), float(np.mean(others))
    saved = gain(paired(better), 0, _frame(pairs), base=abs(base), is_total=True)
    if abs(better.mean()) <= pairs.question.tolerance * abs(base):
        saved = replace(saved, verdict=Verdict.NO_EVIDENCE)
    return _row(QUALITY, replace(saved, base=base, other=other), _p(pairs, values))


def _frame(pairs: Pairs) -> Frame:
    every = [*pairs.base, *pairs.other]
    return Frame(
        cells=(),
        pairs=[(at, at) for at in range(len(pairs.base))],
        factors=np.ones((len(pairs.base), len(pairs.other))),
        missed=(0, 0),
        quality_ok=None,
        comparable=not pairs.problems,
        same_meters=len({run.meters for run in every}) == 1,
        meter_error=max(run.meter_error for run in every),
    )
