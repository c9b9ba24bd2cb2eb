"""The champion against the script's own setting, pair by pair, by the code of ``probe compare``.

The pairs are of fresh seeds: the champion was chosen by other ones. The number of pairs is fixed
before the first of them, so that one look decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from probe.compare.comparison import compare
from probe.compare.gain import Gain, Interval, Verdict, closed
from probe.compare.model import Comparison
from probe.compare.quantity import Frame, gain
from probe.compare.reasons import reason
from probe.compare.run_record import Trial
from probe.compare.sides import Question, Side
from probe.compare.statistics import paired

from .objective import Objective

WHAT = {"time": "time", "energy": "energy", "cost": "money", "edp": "energy × time"}
WORDS = {Verdict.GAIN: "pays", Verdict.LOSS: "costs", Verdict.NO_EVIDENCE: "no evidence"}


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: runs of both sides in the order of their pairs.

    ``problems`` says why they are not comparable, if they are not.
    """

    default: Side
    champion: Side
    question: Question
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether the champion pays; ``gain`` is what one training saves of the objective.

    ``default`` and ``champion`` are means over the pairs, ``percent`` the gain over ``default``.
    """

    verdict: Verdict
    pairs: int = 0
    gain: float | None = None
    interval: Interval | None = None
    percent: float | None = None
    default: float | None = None
    champion: float | None = None
    reason: str = ""

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        return WORDS[self.verdict]


def prove(sides: Sides, objective: Objective) -> Proof:
    """Compare both sides."""
    default, champion = (
        Side(side.name, [replace(run, block=str(at)) for at, run in enumerate(side.trials)])
        for side in (sides.default, sides.champion)
    )
    report = compare(default, [champion], sides.question, [sides.problems])
    comparison = report.comparisons[0]
    frame = _frame(default.trials, champion.trials, comparison)
    saved: Gain = comparison.time_s if objective.kind == "time" else comparison.energy_j
    if objective.kind in ("cost", "edp"):
        saved = _saved(default.trials, champion.trials, objective, frame)
    why = reason(
        default, champion, frame, comparison.quality, sides.problems, saved, WHAT[objective.kind]
    )
    return Proof(
        saved.verdict,
        len(default.trials),
        saved.gain,
        closed(saved.interval),
        saved.percent,
        saved.base,
        saved.other,
        why,
    )


def _frame(defaults: Sequence[Trial], champions: Sequence[Trial], by: Comparison) -> Frame:
    every = [*defaults, *champions]
    missed = [sum(run.reached is False for run in side) for side in (defaults, champions)]
    return Frame(
        cells=(),
        pairs=[(at, at) for at in range(len(defaults))],
        factors=np.ones((len(defaults), len(champions))),
        missed=(missed[0], missed[1]),
        quality_ok=by.quality.ok,
        comparable=by.comparable,
        same_meters=len({run.meters for run in every}) == 1,
        meter_error=max(run.meter_error for run in every),
    )


def _saved(
    defaults: Sequence[Trial], champions: Sequence[Trial], objective: Objective, frame: Frame
) -> Gain:
    """What a pair saves of money or of energy × time; nothing if a run missed the target."""
    values = [
        [objective.of(run.time_s, run.energy_j) for run in side] for side in (defaults, champions)
    ]
    before, after = ([value for value in side if value is not None] for side in values)
    if any(frame.missed) or len(before) != len(after) or len(before) != len(defaults):
        return Gain()
    differences = np.array([[base - other] for base, other in zip(before, after, strict=True)])
    base = fmean(before)
    half = frame.meter_half(float(differences.mean()), base) if objective.needs_meter else 0.0
    saved = gain(paired(differences), 0, frame, base=base, is_total=True, meter_half=half)
    return replace(saved, base=base, other=fmean(after))
