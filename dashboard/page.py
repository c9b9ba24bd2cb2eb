"""The interface between a page and the app. Each module in ``pages`` defines a ``PAGE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dash import Dash

from .chart_data import Chart
from .context import AppContext
from .snapshot.still import Still

URL_ID = "url"  # the address of the browser; every page may write its ``search``
Query = Mapping[str, Sequence[str]]  # of a query: each key has one value or more
Address = Mapping[str, Any]  # parts of the path and of the query, unchecked


@dataclass(frozen=True, slots=True)
class ChartTable:
    """A chart whose rows are shown as a table or CSV."""

    title: str
    file_name: str  # without its ending
    chart: Chart


# Called with (context, parts of the path by name, what was asked for in the query, whether command,
# paths, host, user and configuration are wanted). Its errors are those of a table.
MakeStill = Callable[[AppContext, Mapping[str, str], Query, bool], Still]
# Called with (context, parts of the path by name); it reads the query from the request. Its errors
# about a wrong address (ProbeError, KeyError, ValueError, ...) become a 404 with one line.
FindTable = Callable[..., ChartTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the dashboard.

    Attributes:
        path: below the base path, ``<name>`` for a part that becomes one of the address.
        title: of the browser's tab, or what makes it from the parts of the path.
        layout: makes the page.
        callbacks: adds the page's callbacks to the app, once.
        navigation: (place, label) in the bar on top; None if it is not there.
        tables: rule of a path, below ``/table/`` and ``/csv/``, → what finds the chart.
        stills: rule of a path, below ``/snapshot/``, → what makes the page one file.
        opens_with_charts: its first view has charts, so the browser fetches their scripts at once.
        prefetch: computes, in a thread, what the browser will ask for; its errors are dropped.
    """

    path: str
    title: str | Callable[..., str]
    layout: Callable[[AppContext, Address], Any]
    callbacks: Callable[[Dash], None]
    navigation: tuple[int, str] | None = None
    tables: Mapping[str, FindTable] = field(default_factory=dict)
    stills: Mapping[str, MakeStill] = field(default_factory=dict)
    opens_with_charts: bool = True
    prefetch: Callable[[AppContext, str], None] | None = None
