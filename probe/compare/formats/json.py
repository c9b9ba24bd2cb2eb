"""The comparison as JSON, schema 1."""

from __future__ import annotations

import json

from ..model import ComparisonReport


def render(report: ComparisonReport) -> str:
    """Serialise; a value that is unknown is null, never NaN."""
    return json.dumps(report.to_dict(), indent=1, allow_nan=False)
