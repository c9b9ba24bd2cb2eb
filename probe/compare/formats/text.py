"""The comparison for a terminal."""

from __future__ import annotations

from ..model import ComparisonReport
from ._tables import parts


def render(report: ComparisonReport) -> str:
    """The answer and the tables of every other side."""
    lines: list[str] = []
    for part in parts(report):
        lines += ["", part.answer, f"  → {part.basis}"]
        for table in part.tables:
            lines += ["", *table.lines()]
        lines += ["", *(f"  {line}" for line in part.remarks)]
    if report.warnings:
        lines += ["", *(f"! {line}" for line in report.warnings)]
    return "\n".join(lines).strip("\n")
