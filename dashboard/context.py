"""The state that all pages of one app share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from flask import current_app, has_request_context

from probe.analysis.carbon_and_price import Tariffs
from probe.errors import ProbeError

from . import urls
from .alerts.settings import Settings
from .alerts.watcher import Watcher
from .data.comparisons import Comparisons
from .data.library import Library
from .data.sensors import Sensors

CONFIG_KEY = "APP_CONTEXT"  # of the Flask app


@dataclass(frozen=True)
class AppContext:
    """The data of one directory of runs, and the path below which it is served.

    ``tariffs`` are PROBE_INTENSITY and PROBE_PRICE as the server was started with them,
    ``settings`` the user's alerts.
    """

    directory: Path
    base: str = "/"
    library: Library = field(init=False)
    comparisons: Comparisons = field(init=False)
    sensors: Sensors = field(init=False)
    tariffs: Tariffs = field(default_factory=Tariffs.given)
    settings: Settings = field(default_factory=Settings)
    alerts: Watcher = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "library", Library(self.directory))
        object.__setattr__(self, "comparisons", Comparisons(self.directory))
        object.__setattr__(self, "sensors", Sensors())
        object.__setattr__(self, "alerts", Watcher(self.library, self.settings))

    def href(self, path: str) -> str:
        """A path of the app as a link, below the base path."""
        return self.base.rstrip("/") + path

    def chart_links(self, *place: str, asked: object = ()) -> tuple[str, str]:
        """Links to a chart's table and CSV; arguments as of :func:`urls.chart`."""
        table, csv = urls.chart(*place, asked=asked)
        return self.href(table), self.href(csv)


def app_context() -> AppContext:
    """The context of the app that answers. Only within a request."""
    context: AppContext = current_app.config[CONFIG_KEY]
    return context


def name_of_run(run_id: str) -> str:
    """The run's name, or its id where it has none or cannot be opened."""
    name = ""
    if has_request_context():
        with contextlib.suppress(ProbeError):  # the page itself says so
            name = app_context().library.open(run_id).reader.meta.get("name") or ""
    return name or run_id
