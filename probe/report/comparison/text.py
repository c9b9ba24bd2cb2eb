"""The comparison for a terminal."""

from __future__ import annotations

from typing import Any

from ._tables import Table, parts, what


def render(comparison: dict[str, Any]) -> str:
    """The question, then the verdict and the tables of every other side."""
    lines = [what(comparison)]
    for part in parts(comparison):
        lines += ["", part.heading, f"  → {part.verdict}"]
        for table in part.tables:
            lines += ["", *_table(table)]
        if part.remarks:
            lines += ["", *(f"  {line}" for line in part.remarks)]
    if comparison["warnings"]:
        lines += ["", *(f"! {line}" for line in comparison["warnings"])]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    cells = [table.head, *table.rows]
    wide = [max(len(row[i]) for row in cells) for i in range(len(table.head))]
    lines = [table.title] if table.title else []
    for row in cells:
        said = (cell.ljust(wide[i]) if i in table.text else cell.rjust(wide[i])
                for i, cell in enumerate(row))
        lines.append(("  " + "  ".join(said)).rstrip())
    return lines
