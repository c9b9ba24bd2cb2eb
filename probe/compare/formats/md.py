"""The comparison as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from ...report.formats.md import cell, table_of
from ..model import ComparisonReport
from ._tables import parts

MARKER = "<!-- phasewatt comparison -->"  # stable: a job finds the comment that it wrote before


def render(report: ComparisonReport) -> str:
    """The answer and the tables of every other side."""
    lines = [MARKER]
    for part in parts(report):
        lines += [f"### {_text(part.answer)}", "", f"**{_text(part.basis)}**", ""]
        for table in part.tables:
            lines += table_of(table)
        lines += [*(f"- {_text(remark)}" for remark in part.remarks), ""]
    lines += [f"- {_text(warning)}" for warning in report.warnings]
    return "\n".join(lines).rstrip()


def _text(sentence: str) -> str:
    """A whole sentence: ``cell`` alone would cut it at the width of a cell."""
    return " ".join(map(cell, sentence.split()))
