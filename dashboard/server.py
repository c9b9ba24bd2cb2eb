"""What pages and downloads of one dashboard share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .data.comparisons import Comparisons
from .data.library import Library
from .data.sensors import Sensors


@dataclass(frozen=True)
class Desk:
    """The data of one directory of runs, and the path below which it is served."""

    directory: Path
    base: str = "/"
    library: Library = field(init=False)
    comparisons: Comparisons = field(init=False)
    sensors: Sensors = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "library", Library(self.directory))
        object.__setattr__(self, "comparisons", Comparisons(self.directory))
        object.__setattr__(self, "sensors", Sensors())

    def href(self, path: str) -> str:
        """A path of ours as a link."""
        return self.base.rstrip("/") + path


def desk() -> Desk:
    """Of the app that answers now. Only within a request."""
    from flask import current_app

    found: Desk = current_app.config["DESK"]
    return found
