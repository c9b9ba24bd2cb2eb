"""What all exporters share: the stored run, an atomic write, and their error."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from pathlib import Path

from probe.clock import Anchor
from probe.errors import UsageError
from probe.report.build import run_report
from probe.report.model import Report
from probe.store.files import write_bytes
from probe.store.reader import RunReader


class ExportRefused(UsageError):
    """This run cannot be exported this way; the message says why in one line."""


class StoredRun:
    """A stored run, as an exporter gets it; everything is read when it is first asked for.

    ``report`` is its :class:`probe.Report`, ``reader`` what was recorded, ``path`` its directory.
    Times end in their units: ``_s`` seconds since 1970, ``_ns`` nanoseconds.
    """

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def report(self) -> Report:
        """The run's report.

        Raises:
            ExportRefused: as :attr:`reader`.
            UsageError: it is a group of trainings.
            StoreError: it cannot be read.
        """
        return run_report(self.reader.path)

    @cached_property
    def reader(self) -> RunReader:
        """Spans, samples, values.

        Raises:
            ExportRefused: its card is simulated: elsewhere its figures would be taken for real.
            StoreError: it cannot be read.
        """
        reader = RunReader(self.path)
        if reader.meta.get("simulated"):
            raise ExportRefused(
                f"{reader.id} is of a simulated card (`probe demo`): nothing of it is exported"
            )
        return reader

    @property
    def anchor(self) -> Anchor:
        """One instant on the monotonic and on the wall clock."""
        return Anchor(**self.reader.meta["anchor"])

    @property
    def ahead_ns(self) -> int:
        """What the wall clock (ns since 1970) is ahead of the monotonic clock."""
        return self.anchor.wall_ns - self.anchor.monotonic_ns

    @property
    def id(self) -> str:
        """The run's id."""
        return self.report.run.id

    @property
    def begin_s(self) -> float:
        """When it began, in seconds since 1970."""
        return datetime.fromisoformat(self.report.run.started).timestamp()

    @property
    def end_s(self) -> float:
        """When it ended, in seconds since 1970."""
        return self.begin_s + self.report.run.duration_s

    @property
    def name(self) -> str:
        """Its name, or its id without one."""
        return self.report.run.title


def write_whole(output: Path, content: str | bytes) -> None:
    """Replace a file atomically; its directory is made if needed. Raises OSError."""
    output.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
