"""Formats of a group: its JSON and its table. Other formats hold one run."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from . import group_text
from .formats import json


def render_group(report: dict[str, Any], format: str) -> str:  # noqa: A002
    """The group's JSON in a format. Raises UsageError for one that holds one run."""
    if format == "json":
        return json.render(report)
    if format == "text":
        return group_text.render(report)
    group = report["group"]
    raise UsageError(
        f"{format} holds one run, and {group['id']} is a group of {len(report['runs'])} trainings: "
        f"name one of them ({group['id']}/1), or write --format text or json"
    )
