"""The comparison as one HTML file: no script, no network, dark and light."""

from __future__ import annotations

from typing import Any

from ...report.formats.html import escaped, page, table_of
from ._tables import parts, what


def render(comparison: dict[str, Any]) -> str:
    """A whole page."""
    body = [f"<header><h1>Did it pay?</h1><p class='soft'>{escaped(what(comparison))}</p></header>"]
    for part in parts(comparison):
        body.append(
            f"<h2>{escaped(part.heading)}</h2><p class='figure'>{escaped(part.verdict)}</p>"
        )
        body += [table_of(table) for table in part.tables]
        body += [f"<p>{escaped(remark)}</p>" for remark in part.remarks]
    if comparison["warnings"]:
        lines = "".join(f"<li>{escaped(line)}</li>" for line in comparison["warnings"])
        body.append(f"<ul class='warnings'>{lines}</ul>")
    return page(escaped(f"{comparison['base']['name'][:100]} compared"), "".join(body))
