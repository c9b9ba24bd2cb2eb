"""What ``watch()`` gives where nothing can be recorded: the public face of a Run, doing nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..report.group_model import GroupReport
    from ..report.model import Report
    from ..store.live import Live


class WatchedRun(Protocol):
    """What a script may use of a run, recorded or not."""

    @property
    def id(self) -> str:
        """The run's id; empty where nothing is recorded."""

    @property
    def path(self) -> Path:
        """The run's directory; it does not exist where nothing is recorded."""

    @property
    def closed(self) -> bool:
        """Whether the recording has ended."""

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Name what happens inside."""

    def step(self) -> None:
        """Say that a step ends here."""

    def log(self, *metrics: Any, **values: Any) -> None:
        """Record numbers of this step."""

    def note(self, line: str) -> None:
        """Add a line to the report's notes."""

    def configure(self, settings: Any) -> None:
        """Add to the run's config."""

    def live(self) -> Live | None:
        """Joules so far and watts now; None before the first live page."""

    def report(self) -> Report | GroupReport:
        """The report so far."""

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """End the recording."""


class ShowsItsReport:
    """What notebooks show of a run, recorded or not."""

    def __repr__(self: WatchedRun) -> str:
        state = "closed" if self.closed else "recording"
        return f"<{type(self).__name__} {self.id or self.path.name}, {state}>"

    def _repr_html_(self: WatchedRun) -> str:
        """The report of this moment."""
        from ..report.notebook import fragment

        return fragment(self.report())


class UnwatchedRun(ShowsItsReport):
    """Replaces a :class:`~probe.session.run.Run` that could not be recorded."""

    id = ""
    closed = False

    def __init__(self, reason: str, directory: Path, pid: int):
        """``reason``: one line; ``directory``: where the run would have been."""
        self.path = directory / "not-recorded"
        self.pid, self.depth = pid, 0
        self._reason = reason

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Do nothing."""
        return contextlib.nullcontext()

    def step(self) -> None:
        """Do nothing."""

    def log(self, *metrics: Any, **values: Any) -> None:
        """Do nothing."""

    def note(self, line: str) -> None:
        """Do nothing."""

    def configure(self, settings: Any) -> None:
        """Do nothing."""

    def live(self) -> None:
        """None: there is no live page."""

    def report(self) -> Report:
        """A report without figures, whose warning says why."""
        from ..report.build.empty import empty

        return empty(f"nothing was recorded: {self._reason}")

    def close(self, *, failed: bool = False, exit_code: int = 0, error: str = "") -> None:
        """Say that the run is over."""
        self.closed = True
