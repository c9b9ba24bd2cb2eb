"""What pages and downloads of one dashboard share."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .data.comparisons import Comparisons
from .data.library import Library
from .data.sensors import Sensors
from .run_charts import drawn
from .urls import State


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

    def warm(self, run_id: str) -> None:
        """Begin to make what a run's page asks for first, while the browser fetches its scripts."""
        threading.Thread(target=self._warm, args=(run_id,), daemon=True).start()

    def _warm(self, run_id: str) -> None:
        with contextlib.suppress(Exception):  # the page will ask, and be told
            drawn(self.library.open(run_id), "power", State())  # more would hold up the page

    def href(self, path: str) -> str:
        """A path of ours as a link."""
        return self.base.rstrip("/") + path


def desk() -> Desk:
    """Of the app that answers now. Only within a request."""
    from flask import current_app

    found: Desk = current_app.config["DESK"]
    return found
