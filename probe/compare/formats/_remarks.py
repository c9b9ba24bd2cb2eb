"""Remarks below the tables of a comparison: quality, the early stage, how classes were decided."""

from __future__ import annotations

from ...report.numbers import number
from ...report.text_tables import percent
from ..gain import Verdict
from ..model import Classified, Comparison, ComparisonReport
from ..phase_classes import MEMORY_BOUND, NOT_SEPARATED
from ..statistics import FEWEST_RUNS


def remarks(report: ComparisonReport, comparison: Comparison) -> list[str]:
    """Lines below the tables of one other side."""
    lines = [
        f"the joules by phase are without {run}: phases cannot be told apart in it"
        for run in comparison.phases_without
    ]
    lines.append(_quality(report, comparison))
    costs = [
        f"{cell.stage} {cell.class_}"
        for cell in comparison.cells
        if Verdict.LOSS in (cell.verdict, cell.cost_verdict)
    ]
    if costs and comparison.verdict is Verdict.GAIN:
        lines.append(f"it costs more in {', '.join(costs)}")
    marks = [mark for mark in comparison.early_at if mark.share is not None]
    if comparison.four and marks:
        shares = " or ".join(percent(100 * (mark.share or 0.0)) for mark in marks)
        ends = " or ".join(f"{100 * mark.share_of_samples:.0f} %" for mark in marks)
        lines.append(
            f"if early training ended after {ends} of the base's samples, its share of the "
            f"{comparison.verdict} would be {shares}"
        )
    if comparison.cells:
        lines.append(_classes(report))
    if comparison.runs >= FEWEST_RUNS:
        lines.append(
            "verdicts on single rows are corrected for the number of rows (Holm); the intervals "
            "are not"
        )
    lines += [
        f"{row.phase}: {100 * row.memory_bound_base:.0f} % memory-bound in the base, "
        f"{100 * row.memory_bound_other:.0f} % here; the base's class is used for both"
        for row in comparison.moved
    ]
    return lines


def _quality(report: ComparisonReport, comparison: Comparison) -> str:
    quality = comparison.quality
    if quality.base is None:
        if quality.metric is None:
            return "no metric of quality was logged: whether the other side is as good is not known"
        return f"{quality.metric} was not logged by every run"
    change = percent(quality.difference_percent)
    allowed = "what is" if report.tolerance_percent is None else percent(report.tolerance_percent)
    within = "within" if quality.ok else "worse than"
    return (
        f"{quality.metric} {number(quality.base)} → {number(quality.other)} ({change}), "
        f"{within} {allowed} allowed"
    )


def _classes(report: ComparisonReport) -> str:
    if not report.memory_separated:
        why = report.not_separated_because
        missing = NOT_SEPARATED if why is None else f"not separated, since {why}"
        return f"phases are classed by their name; {MEMORY_BOUND} work is {missing}"
    ways = [
        f"{how} for {', '.join(phases)}"
        for how in (Classified.MEASURED, Classified.COUNTED)
        if (phases := [phase for phase, way in report.classified.items() if way is how])
    ]
    return f"{MEMORY_BOUND} work is {'; '.join(ways)}; other phases are classed by their name"
