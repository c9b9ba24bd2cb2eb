"""Formats of a comparison of runs. Each is one file here with ``render(report)``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ...errors import UsageError
from ..model import ComparisonReport
from ._answer import answer, unit_of
from ._phase_tables import phase_tables
from ._tables import Part, parts


def render(report: ComparisonReport, format: str = "text") -> str:  # noqa: A002
    """The comparison in one of :func:`formats`. Raises UsageError for another."""
    if format not in formats():
        raise UsageError(
            f"no format {format!r} of a comparison: choose from {', '.join(formats())}"
        )
    return str(import_module(f"{__name__}.{format}").render(report))


def formats() -> list[str]:
    """The formats that are installed."""
    return sorted(m.name for m in iter_modules(__path__) if not m.name.startswith("_"))


__all__ = ["Part", "answer", "formats", "parts", "phase_tables", "render", "unit_of"]
