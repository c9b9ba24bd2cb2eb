"""The comparison as JSON, schema 1."""

from __future__ import annotations

import json
from typing import Any


def render(comparison: dict[str, Any]) -> str:
    """Serialise; a value that is unknown is null, never NaN."""
    return json.dumps(comparison, indent=1, allow_nan=False)
