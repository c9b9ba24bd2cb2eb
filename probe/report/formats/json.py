"""The report as JSON, schema 1."""

from __future__ import annotations

import json
from typing import Any


def render(report: dict[str, Any]) -> str:
    """Serialise; a value that is unknown is null, never NaN."""
    return json.dumps(report, indent=1, allow_nan=False)
