"""The report as JSON, schema 1."""

from __future__ import annotations

from ..model import Report


def render(report: Report) -> str:
    """Serialise; a value that is unknown is null, never NaN."""
    return report.to_json()
