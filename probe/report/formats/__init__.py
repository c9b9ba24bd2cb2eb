"""Formats of the report of one run. Each is one file here with ``render(report)``.

It returns text, or bytes for a format that is not text. They know :mod:`probe.report.model` and
nothing else: no store, no sensors. A third party's format is an entry point of the group
``probe.reports`` that names such a function; it is given runs only, ours also take a group.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ...errors import ProbeError, UsageError
from ...plugins import discover, load
from ..group_model import GroupReport
from ..model import Report

REPORTS = "probe.reports"  # the group of entry points


def formats() -> list[str]:
    """Names of ours, then of third parties'; none of theirs is imported."""
    ours = sorted(module.name for module in iter_modules(__path__))
    return [*ours, *(name for name in discover(REPORTS) if name not in ours)]


def render(report: Report | GroupReport, format: str = "text") -> str | bytes:  # noqa: A002
    """The report in one of :func:`formats`.

    Raises:
        UsageError: no such format, what it needs is missing, or it is a third party's that failed
            or that this group was given to.
    """
    if format not in formats():
        raise UsageError(f"no report format {format!r}: choose from {', '.join(formats())}")
    if any(module.name == format for module in iter_modules(__path__)):
        ours: str | bytes = import_module(f"{__name__}.{format}").render(report)
        return ours
    if isinstance(report, GroupReport):
        group = report.group
        raise UsageError(
            f"{format} holds one run, and {group.id} is a group of {len(report.runs)} trainings: "
            f"name one of them ({group.id}/1), or write --format text, html or json"
        )
    try:
        rendered = load(REPORTS, format)(report)
    except ProbeError:
        raise
    except Exception as error:
        raise UsageError(f"{format}: {type(error).__name__}: {error}") from error
    return rendered if isinstance(rendered, bytes) else str(rendered)
