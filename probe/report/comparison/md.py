"""The comparison as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from typing import Any

from ..md import cell, line
from ..tables import Table
from ._tables import parts, what

MARKER = "<!-- phasewatt comparison -->"  # stable: a job finds the comment that it wrote before


def render(comparison: dict[str, Any]) -> str:
    """A heading and tables for every other side."""
    lines = [MARKER, cell(what(comparison)), ""]
    for part in parts(comparison):
        lines += [f"### {cell(part.heading)}", "", f"**{cell(part.verdict)}**", ""]
        for table in part.tables:
            lines += _table(table)
        lines += [*(f"- {cell(remark)}" for remark in part.remarks), ""]
    lines += [f"- {cell(warning)}" for warning in comparison["warnings"]]
    return "\n".join(lines).rstrip()


def _table(table: Table) -> list[str]:
    rule = ["---" if i in table.text else "---:" for i in range(len(table.head))]
    title = [f"{cell(table.title)}:", ""] if table.title else []
    return [*title, line([cell(name) for name in table.head]), line(rule),
            *(line([cell(value) for value in row]) for row in table.rows), ""]
