"""Why a comparison has no verdict, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from .gain import Gain, Verdict
from .model import Quality
from .quantity import Frame
from .sides import Side
from .statistics import FEWEST_RUNS

CONTAINS_ZERO = "contains zero"
"""How a reason ends that the interval itself already shows."""
RUNS_NEEDED = f"a verdict needs {FEWEST_RUNS} or more runs a side"


def reason(
    base: Side,
    other: Side,
    frame: Frame,
    quality: Quality,
    problems: Sequence[str],
    total: Gain,
    by: str,
) -> str:
    """Empty if there is a gain or a loss that needs no further word.

    Args:
        total: the gain on which the verdict rests.
        by: energy or time.
    """
    if problems:
        return "not comparable: " + "; ".join(problems)
    if quality.ok is False and total.verdict is not Verdict.LOSS:
        percent = quality.difference_percent
        much = "" if percent is None else f"{abs(percent):.2g} % "
        return f"quality: {quality.metric} is {much}worse"
    for side, missed in zip((base, other), frame.missed, strict=True):
        if missed:
            return (
                f"target missed by {missed} of {len(side.trials)} runs of {side.name}: "
                "what they used is only a bound"
            )
    if total.verdict is not Verdict.NO_EVIDENCE:
        return ""
    if len(base.trials) == len(other.trials) == 1:
        return f"one run a side: no interval; {RUNS_NEEDED}"
    for side in (base, other):
        if len(side.trials) < FEWEST_RUNS:
            return f"{_count(side)} of {side.name}: no interval; {RUNS_NEEDED}"
    return f"the 95 % interval of the {by} gain {CONTAINS_ZERO}"


def _count(side: Side) -> str:
    return "one run" if len(side.trials) == 1 else f"{len(side.trials)} runs"
