"""The answer of a comparison in one sentence: how much, how sure, and in which phase."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Phase, Provenance
from ...report.numbers import number
from ...report.sentences import short
from ..gain import Gain, Verdict, closed
from ..model import Comparison, ComparisonReport, PhaseGain
from ..statistics import FEWEST_RUNS

_LONGEST = 60
_MOST, _LARGEST, _NEARLY_ALL = 0.5, 0.25, 0.9


def answer(report: ComparisonReport, comparison: Comparison) -> str:
    """How much the other side saves, how sure that is, and in which phase; or why that is unknown.

    For example: bf16 uses 23 % less energy per sample than base (95 %: 20 … 26 %); most of it in
    backward (71 %).
    """
    base, other = short(report.base.name, _LONGEST), short(comparison.other.name, _LONGEST)
    quantity = comparison.verdict_by
    total = comparison.time_s if quantity == "time" else comparison.energy_j
    if not comparison.comparable:
        why = short("; ".join(comparison.differs), 200)
        return f"{other} cannot be compared with {base}: {why}"
    if total.gain is None:
        return _without_total(report, comparison, other, base)
    change = f"{_change(report, total, quantity, base)}{_limits(total)}"
    if comparison.verdict is not Verdict.NO_EVIDENCE:
        return f"{other} {change}{_where(report, comparison)}{_caveat(comparison)}"
    if comparison.runs < FEWEST_RUNS:
        return f"{other} {change} in one run: no interval, so no verdict"
    if comparison.quality.ok is False:
        worse = short(comparison.reason.removeprefix("quality: "), 100)
        return f"{other} {change}, but its {worse}: not a gain"
    return f"no evidence that {other} saves {quantity}: it {change}"


def unit_of(report: ComparisonReport) -> str:
    """The unit of work: sample, token or step."""
    return report.unit.removesuffix("s")


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


def _change(report: ComparisonReport, total: Gain, quantity: str, base: str) -> str:
    """For example: uses 23 % less energy per sample than base."""
    verb = "takes" if quantity == "time" else "uses"
    if report.target is None:
        what, end = f"{quantity} per {unit_of(report)}", ""
    else:
        what, end = quantity, f" to reach {_target(report)}"
    if not total.percent:
        return f"{verb} as much {what} as {base}{end}"
    more = "less" if total.percent > 0 else "more"
    return f"{verb} {_percent(abs(total.percent), _half(total))} % {more} {what} than {base}{end}"


def _limits(total: Gain) -> str:
    """The interval in percent of the base, in the direction in which the sentence puts it."""
    interval = closed(total.interval)
    if interval is None or not total.base or not total.percent:
        return ""
    sign = 1 if total.percent > 0 else -1
    low, high = sorted(100 * sign * end / total.base for end in interval)
    half = _half(total)
    return f" (95 %: {_percent(low, half)} … {_percent(high, half)} %)"


def _half(total: Gain) -> float:
    """Half-width of the interval in percent of the base; 1 if there is none."""
    interval = closed(total.interval)
    if interval is None or not total.base:
        return 1.0
    return abs(100 * (interval[1] - interval[0]) / 2 / total.base)


def _percent(value: float, half: float) -> str:
    """Rounded at the first digit of the uncertainty, and to whole percent at most."""
    return number(value, min(half, 1.0)).replace("-", "−")


def _where(report: ComparisonReport, comparison: Comparison) -> str:
    """In which phase most of the gain is, if a sample became cheaper at all."""
    if comparison.per_sample.verdict is Verdict.NO_EVIDENCE:
        return "" if report.target is None else f"; no evidence of a cheaper {unit_of(report)}"
    largest = _largest(comparison.phases, by_energy=comparison.verdict_by == "energy")
    if largest is None:
        return ""
    phase, share, is_sure = largest
    if phase == Phase.UNRESOLVED:
        return "; its phases cannot be told apart"
    if share < _LARGEST:
        return "; spread over many phases"
    if share >= _NEARLY_ALL:
        part = "nearly all of it"
    else:
        part = "most of it" if share >= _MOST else "the largest part"
    return f"; {part} {'' if is_sure else 'probably '}in {phase} ({100 * share:.0f} %)"


def _largest(phases: Sequence[PhaseGain], *, by_energy: bool) -> tuple[str, float, bool] | None:
    """(phase, its share, whether it has a verdict); the parts of a phase count together."""
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
