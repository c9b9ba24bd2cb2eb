"""The answer of a comparison in one sentence: how much, how sure, and in which phase."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Phase, Provenance
from ...report.numbers import number
from ...report.sentences import short
from ..model import Comparison, ComparisonReport, Gain, PhaseGain, Verdict, closed
from ..statistics import FEWEST_RUNS

_LONGEST = 60
_MOST, _LARGEST, _NEARLY_ALL = 0.5, 0.25, 0.9


def answer(report: ComparisonReport, comparison: Comparison) -> str:
    """How much the other side saves, how sure that is, and in which phase; or why nobody knows.

    For example: bf16 uses 23 % less energy per sample than base (95 %: 20 … 26 %); most of it in
    backward (71 %).
    """
    base, other = short(report.base.name, _LONGEST), short(comparison.other.name, _LONGEST)
    if not comparison.comparable:
        return (
            f"{other} cannot be compared with {base}: {short('; '.join(comparison.differs), 200)}"
        )
    quantity, total = comparison.verdict_by, _total(comparison)
    if total.gain is None:
        return _without_total(report, comparison, other, base)
    much = _difference(total.percent, other, base, quantity, unit_of(report), _target(report))
    is_unsure = comparison.verdict is Verdict.NO_EVIDENCE
    if is_unsure and comparison.runs < FEWEST_RUNS:
        return f"{much}, one run a side: no interval, so no verdict"
    limits = _limits(total)
    if is_unsure and comparison.quality.ok is False:
        worse = short(comparison.reason.removeprefix("quality: "), 100)
        return f"{much}{limits}, but {worse}: not a gain"
    if is_unsure:
        what = f"{quantity} per {unit_of(report)}"
        return (
            f"no evidence that {other} changes the {what}: {much.removeprefix(other).strip()}"
            + (limits)
        )
    return f"{much}{limits}{_where(report, comparison)}{_caveat(comparison)}"


def unit_of(report: ComparisonReport) -> str:
    """The unit of work: sample, token or step."""
    return report.unit.removesuffix("s")


def _total(comparison: Comparison) -> Gain:
    return comparison.time_s if comparison.verdict_by == "time" else comparison.energy_j


def _target(report: ComparisonReport) -> str:
    target = report.target
    return "" if target is None else f"{target.metric} {target.direction} {number(target.value)}"


def _without_total(report: ComparisonReport, comparison: Comparison, other: str, base: str) -> str:
    """Where a run missed the target."""
    if comparison.verdict is Verdict.LOSS:
        return (
            f"{other} has used more {comparison.verdict_by} than {base} "
            f"without reaching {_target(report)}"
        )
    return f"no verdict on {other}: {short(comparison.reason, 200)}"


def _difference(
    percent: float | None, other: str, base: str, quantity: str, unit: str, target: str
) -> str:
    verb = "takes" if quantity == "time" else "uses"
    what = f"{quantity} per {unit}"
    end = f" to reach {target}" if target else ""
    if target:
        what = quantity
    if not percent:
        return f"{other} {verb} as much {what} as {base}{end}"
    more = "less" if percent > 0 else "more"
    return f"{other} {verb} {number(abs(percent))} % {more} {what} than {base}{end}"


def _limits(total: Gain) -> str:
    """The interval in percent of the base, in the direction in which the sentence puts it."""
    interval = closed(total.interval)
    if interval is None or not total.base or not total.percent:
        return ""
    sign = 1 if total.percent > 0 else -1
    low, high = sorted(100 * sign * value / total.base for value in interval)
    half = (high - low) / 2
    return f" (95 %: {_signed(low, half)} … {_signed(high, half)} %)"


def _signed(value: float, half: float) -> str:
    return number(value, half).replace("-", "−")


def _where(report: ComparisonReport, comparison: Comparison) -> str:
    """In which phase most of the gain is, if a sample became cheaper at all."""
    total = comparison.per_sample
    if total.verdict is Verdict.NO_EVIDENCE:
        return "" if report.target is None else "; each sample costs as much as before"
    largest = _largest(comparison.phases, by_energy=comparison.verdict_by == "energy")
    if largest is None:
        return ""
    phase, share, is_sure = largest
    if phase == Phase.UNRESOLVED:
        return "; its phases cannot be told apart"
    if share < _LARGEST:
        return "; spread over many phases"
    part = (
        "nearly all of it"
        if share >= _NEARLY_ALL
        else "most of it"
        if share >= _MOST
        else "the largest part"
    )
    per = "" if report.target is None else f" per {unit_of(report)}"
    return f"; {part}{per} {'' if is_sure else 'probably '}in {phase} ({100 * share:.0f} %)"


def _largest(phases: Sequence[PhaseGain], *, by_energy: bool) -> tuple[str, float, bool] | None:
    """(phase, its share, whether a verdict says so); parts of a phase count together."""
    shares: dict[str, float] = {}
    sure: dict[str, bool] = {}
    for row in phases:
        if row.share is None:
            continue
        name = row.phase.partition("/")[0]
        verdict = row.verdict if by_energy else row.time_verdict
        shares[name] = shares.get(name, 0.0) + row.share
        sure[name] = sure.get(name, False) or verdict is not Verdict.NO_EVIDENCE
    if not shares:
        return None
    name = max(shares, key=lambda phase: shares[phase])
    return name, shares[name], sure[name]


def _caveat(comparison: Comparison) -> str:
    if comparison.verdict_by == "energy":
        return ""
    if comparison.energy_j.provenance is Provenance.MODELLED:
        return "; energy was not measured, only modelled"
    return "; energy was not measured"
