"""What fails in one meter's analysis is a warning of the report, never its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import ProbeError
from ..model import Source

T = TypeVar("T")


class Faults:
    """Collects one line per meter and consequence."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}  # line → id of the meter

    def attempt(self, source: Source, consequence: str, work: Callable[[], T]) -> T | None:
        """Return what ``work`` returns; None if it failed, which becomes a line.

        Trouble of the user's doing (ProbeError, OSError) is raised.

        Args:
            source: the meter whose data ``work`` reads.
            consequence: what the reader of the report misses, as in "phases share … by time".
        """
        try:
            return work()
        except (ProbeError, OSError):
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._lines[f"{source.device} ({source.id}): {consequence} ({why})"] = source.id
            return None

    def of(self, source: Source) -> bool:
        """Whether something of this meter has failed."""
        return source.id in self._lines.values()

    def lines(self) -> list[str]:
        """All that failed so far, once each."""
        return list(self._lines)
