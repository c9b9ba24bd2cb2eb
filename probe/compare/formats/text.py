"""The comparison for a terminal."""

from __future__ import annotations

from typing import Any

from ._tables import parts, what


def render(comparison: dict[str, Any]) -> str:
    """The question, then the verdict and the tables of every other side."""
    lines = [what(comparison)]
    for part in parts(comparison):
        lines += ["", part.heading, f"  → {part.verdict}"]
        for table in part.tables:
            lines += ["", *table.lines()]
        if part.remarks:
            lines += ["", *(f"  {line}" for line in part.remarks)]
    if comparison["warnings"]:
        lines += ["", *(f"! {line}" for line in comparison["warnings"])]
    return "\n".join(lines)
