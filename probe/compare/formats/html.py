"""The comparison as one HTML file: no script, no network, dark and light."""

from __future__ import annotations

from ...report.formats.html import escaped, page, table_of, with_code
from ..model import ComparisonReport
from ._tables import parts


def render(report: ComparisonReport) -> str:
    """A whole page."""
    body = []
    for place, part in enumerate(parts(report)):
        heading = "h1" if place == 0 else "h2"
        body.append(f"<{heading}>{escaped(part.answer)}</{heading}>")
        body.append(f"<p class='used'>{escaped(part.basis)}</p>")
        body += [table_of(table) for table in part.tables]
        body.append(f"<ul>{''.join(f'<li>{with_code(line)}</li>' for line in part.remarks)}</ul>")
    if report.warnings:
        lines = "".join(f"<li>{with_code(line)}</li>" for line in report.warnings)
        body.append(f"<ul class='notes'>{lines}</ul>")
    return page(escaped(f"{report.base.name[:100]} compared"), "".join(body))
