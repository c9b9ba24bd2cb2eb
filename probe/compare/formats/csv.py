"""The comparison as CSV (RFC 4180), in base units.

For every other side a row per phase with what a sample costs, then the totals and a row per cell.
The first row of each side holds the answer in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...report.formats.csv import table
from ..gain import OpenInterval
from ..model import Cell, Comparison, ComparisonReport, PhaseGain
from ._answer import answer, unit_of

Value = str | float | None

COLUMNS = (
    "base",
    "other",
    "phase",
    "per",
    "base_time_s",
    "other_time_s",
    "base_energy_j",
    "other_energy_j",
    "stage",
    "class",
    "classified",
    "time_s",
    "time_s_low",
    "time_s_high",
    "time_verdict",
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "progress_j",
    "cost_j",
    "verdict",
    "share",
    "status",
    "provenance",
    "answer",
)


def render(report: ComparisonReport) -> str:
    """A header, then rows; what is unknown is empty."""
    return table(COLUMNS, _rows(report))


def _rows(report: ComparisonReport) -> Iterator[Mapping[str, Value]]:
    for comparison in report.comparisons:
        sides: dict[str, Value] = {"base": report.base.name, "other": comparison.other.name}
        first: dict[str, Value] = {"answer": answer(report, comparison)}
        for row in (*comparison.phases, comparison.per_sample):
            yield sides | _phase(row, unit_of(report)) | first
            first = {}
        yield sides | _total(comparison)
        for cell in comparison.cells:
            yield sides | _cell(cell)


def _phase(row: PhaseGain, unit: str) -> dict[str, Value]:
    return {
        "phase": row.phase,
        "per": unit,
        "base_time_s": row.base.time_s,
        "other_time_s": row.other.time_s,
        "base_energy_j": row.base.energy_j,
        "other_energy_j": row.other.energy_j,
        "time_s": row.gain_s,
        **_limits("time_s", row.gain_s_interval),
        "time_verdict": row.time_verdict,
        "energy_j": row.gain_j,
        **_limits("energy_j", row.gain_j_interval),
        "verdict": row.verdict,
        "share": row.share,
        "status": row.status,
        "provenance": row.provenance,
    }


def _total(comparison: Comparison) -> dict[str, Value]:
    time, energy = comparison.time_s, comparison.energy_j
    return {
        "per": "run",
        "base_time_s": time.base,
        "other_time_s": time.other,
        "base_energy_j": energy.base,
        "other_energy_j": energy.other,
        "stage": "all",
        "class": "all",
        "time_s": time.gain,
        **_limits("time_s", time.interval),
        "time_verdict": time.verdict,
        "energy_j": energy.gain,
        **_limits("energy_j", energy.interval),
        "progress_j": energy.progress,
        "cost_j": energy.cost,
        "verdict": energy.verdict,
        "share": 1.0 if comparison.four else None,
        "status": None,
        "provenance": energy.provenance,
    }


def _cell(cell: Cell) -> dict[str, Value]:
    return {
        "per": "run",
        "stage": cell.stage,
        "class": cell.class_,
        "classified": cell.classified,
        "time_s": cell.time_s,
        **_limits("time_s", cell.time_s_interval),
        "time_verdict": cell.time_verdict,
        "energy_j": cell.energy_j,
        **_limits("energy_j", cell.energy_j_interval),
        "progress_j": cell.progress_j,
        "cost_j": cell.cost_j,
        "verdict": cell.verdict,
        "share": cell.share,
        "status": cell.status,
        "provenance": cell.provenance,
    }


def _limits(name: str, interval: OpenInterval | None) -> dict[str, Value]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
