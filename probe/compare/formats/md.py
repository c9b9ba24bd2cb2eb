"""The comparison as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from typing import Any

from ...report.formats.md import cell, table_of
from ._tables import parts, what

MARKER = "<!-- phasewatt comparison -->"  # stable: a job finds the comment that it wrote before


def render(comparison: dict[str, Any]) -> str:
    """A heading and tables for every other side."""
    lines = [MARKER, cell(what(comparison)), ""]
    for part in parts(comparison):
        lines += [f"### {cell(part.heading)}", "", f"**{cell(part.verdict)}**", ""]
        for table in part.tables:
            lines += table_of(table)
        lines += [*(f"- {cell(remark)}" for remark in part.remarks), ""]
    lines += [f"- {cell(warning)}" for warning in comparison["warnings"]]
    return "\n".join(lines).rstrip()
