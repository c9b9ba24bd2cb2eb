"""What all exporters share: the stored run, an atomic write, and their error."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from probe.errors import UsageError
from probe.report.build import run_report
from probe.store.files import write_bytes
from probe.store.reader import RunReader


class ExportRefused(UsageError):
    """This run cannot be exported this way; the message says why in one line."""


class StoredRun:
    """A run directory; everything is read when it is first asked for."""

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report's JSON."""
        return run_report(self.path).to_dict()

    @cached_property
    def reader(self) -> RunReader:
        """Spans, samples, values."""
        return RunReader(self.path)

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.report["run"]["id"])

    @property
    def begin_s(self) -> float:
        """When it began, in seconds since 1970."""
        return datetime.fromisoformat(self.report["run"]["started"]).timestamp()

    @property
    def end_s(self) -> float:
        """When it ended, in seconds since 1970."""
        return self.begin_s + float(self.report["run"]["duration_s"])

    @property
    def name(self) -> str:
        """Its name, or its id without one."""
        return str(self.report["run"]["name"] or self.id)


def write_whole(output: Path, content: str | bytes) -> None:
    """Replace a file atomically; its directory is made if needed. Raises OSError."""
    output.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
