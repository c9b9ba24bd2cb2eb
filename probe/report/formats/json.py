"""The report as JSON, schema 1."""

from __future__ import annotations

from ..group_model import GroupReport
from ..model import Report


def render(report: Report | GroupReport) -> str:
    """Serialise; a value that is unknown is null, never NaN."""
    return report.to_json()
