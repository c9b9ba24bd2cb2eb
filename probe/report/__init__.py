"""Formats of the report of one run. Each is one file here with ``render(report)``.

It returns text, or bytes for a format that is no text. Names with ``_`` are helpers. They know
the report's JSON (schema 1) and nothing else: no store, no sensors.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ..errors import UsageError

_HELPERS = {"advice", "comparison", "digits", "job", "listing", "paper", "tables", "words"}


def render(report: dict[str, Any], format: str = "text") -> str | bytes:  # noqa: A002
    """The report in one of :func:`formats`.

    Raises:
        UsageError: no such format, or a package that it needs is missing.
    """
    if format not in formats():
        raise UsageError(f"no report format {format!r}: choose from {', '.join(formats())}")
    rendered: str | bytes = import_module(f"{__name__}.{format}").render(report)
    return rendered


def formats() -> list[str]:
    """The formats that are installed."""
    return sorted(m.name for m in iter_modules(__path__)
                  if m.name not in _HELPERS and not m.name.startswith("_"))
