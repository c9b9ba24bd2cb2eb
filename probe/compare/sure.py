"""What would make a comparison sure: how many more runs, judged by how much these ones differ."""

from __future__ import annotations

import math

from scipy import stats

from ..model import Phase
from .gain import Gain, Interval, Verdict, closed
from .model import Comparison
from .statistics import FEWEST_RUNS, LEVEL

MOST_RUNS = 30
"""The most runs a side that are ever advised."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def more_runs(gain: float, interval: Interval, runs: int) -> int | None:
    """How many more runs a side would make a gain sure if they differ as these ones do.

    The half-width of Student's interval falls with the root of the runs, and its factor with their
    degrees of freedom. 0: it is sure already; None: even :data:`MOST_RUNS` would not do.

    Args:
        gain: the difference of the means; ``interval`` its 95 % interval.
        runs: of the smaller side now, two at least.
    """
    half = (interval[1] - interval[0]) / 2
    scale = half * math.sqrt(runs) / _factor(runs)
    for needed in range(runs, MOST_RUNS + 1):
        if _factor(needed) * scale / math.sqrt(needed) < abs(gain):
            return needed - runs
    return None


def _factor(runs: int) -> float:
    return float(stats.t.ppf(0.5 + LEVEL / 2, 2 * (runs - 1)))


def to_be_sure(comparison: Comparison) -> str:
    """In one sentence, what would make the verdict sure, or one on its phases; empty if nothing."""
    if not comparison.comparable:
        return "Compare runs that did the same work: what differs is named above."
    runs = comparison.runs
    if runs < FEWEST_RUNS:
        return (
            f"{_words(FEWEST_RUNS - runs)} more run{'s' * (FEWEST_RUNS - runs > 1)} a side would "
            "give an interval and a verdict; three a side make it narrow."
        ).capitalize()
    total: Gain = comparison.time_s if comparison.verdict_by == "time" else comparison.energy_j
    limits = closed(total.interval)
    if comparison.verdict is Verdict.NO_EVIDENCE:
        if total.gain is None or limits is None:
            return ""
        if comparison.quality.ok is False:
            return "More runs would not help: the quality is worse than what is allowed."
        return _sentence(more_runs(total.gain, limits, runs), "the total")
    phase = _undecided(comparison)
    return "" if phase is None else f"The total is sure. {_sentence(phase[1], phase[0])}"


def _undecided(comparison: Comparison) -> tuple[str, int] | None:
    """The largest phase without a verdict that more runs would give one: (phase, more runs)."""
    by_energy = comparison.verdict_by == "energy"
    best: tuple[float, str, int] | None = None
    for row in comparison.phases:
        gain, limits = (
            (row.gain_j, row.gain_j_interval) if by_energy else (row.gain_s, row.gain_s_interval)
        )
        verdict = row.verdict if by_energy else row.time_verdict
        if row.phase == Phase.UNRESOLVED or verdict is not Verdict.NO_EVIDENCE:
            continue
        if gain is None or limits is None:
            continue
        more = more_runs(gain, limits, comparison.runs)
        if more and (best is None or abs(gain) > best[0]):
            best = abs(gain), row.phase, more
    return None if best is None else (best[1], best[2])


def _sentence(more: int | None, what: str) -> str:
    if more is None:
        return (
            f"Runs differ more among themselves than the sides do: {MOST_RUNS} a side would "
            f"hardly decide about {what}."
        )
    runs = f"{_words(max(1, more))} more run{'' if more <= 1 else 's'} a side"
    return f"{runs.capitalize()} would likely decide about {what}, if they differ as these do."


def _words(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
