"""The charts of a run's page: drawn at once, and again when there is something new."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NamedTuple

from dash import Dash, Input, Output, Patch, State, html, no_update

from probe.errors import ProbeError

from ..chart_data import Figure
from ..components import part_id, room
from ..context import app_context
from ..run_charts import CHARTS, ChartKind, draw
from ..urls import Selection

SLOW_TICK_MS = 5000
SLOW = "slow"  # part of the id of a store: the newest that is shown in a chart
_EMPTY: Figure = {"data": [], "layout": {}}


class Stores(NamedTuple):
    """Ids of the page's stores: which run, what is selected, what is drawn later, the newest."""

    run: str
    span: str
    later: str
    seen: str


def draw_and_follow(app: Dash, name: str, kind: ChartKind, stores: Stores) -> None:
    """Draw a chart at once, and again when there is new data or another part is selected.

    Two callbacks: one that also followed what is seen would wait for it before it drew at all.
    """
    parts = (
        (part_id("graph", name), "figure"),
        (part_id("caption", name), "children"),
        (part_id("plot", name), "style"),
        (part_id("links", name) | {"kind": "table"}, "href"),
        (part_id("links", name) | {"kind": "csv"}, "href"),
        (part_id("card", name), "hidden"),
    )
    outputs = [Output(*part) for part in parts]

    if kind.first:

        @app.callback(*outputs, Input(stores.run, "data"), State(stores.span, "data"))
        def draw_first(run_id: Any, asked: Any) -> Any:
            return _answer(name, run_id, asked, complete=True)
    else:

        @app.callback(*outputs, Input(stores.later, "data"), prevent_initial_call=True)
        def draw_later(asked: Any) -> Any:
            asked = asked if isinstance(asked, dict) else {}
            return _answer(name, asked.get("run"), asked, complete=True)

    at_once = (kind.first and kind.time) or kind.values
    seen = [Input(stores.seen, "data")] if kind.first else []

    @app.callback(
        *(Output(*part, allow_duplicate=True) for part in parts),
        Input(stores.span, "data") if at_once else State(stores.span, "data"),
        State(stores.run, "data"),
        *seen,
        Input(part_id(SLOW, name), "data"),
        prevent_initial_call=True,
    )
    def follow(asked: Any, run_id: Any, *_seen: Any) -> Any:
        return _answer(name, run_id, asked, complete=False)


def _answer(name: str, run_id: Any, asked: Any, *, complete: bool) -> Any:
    """A chart for its card: complete at first, later what changed, so that zoom and hover stay."""
    asked = asked if isinstance(asked, dict) else {}
    selection = Selection.of(asked)
    context = app_context()
    try:
        chart = draw(context.library.open(str(run_id)), name, selection)
    except Exception as error:
        # One chart that cannot be drawn must not take the others with it; what is drawn stays.
        shown = (_EMPTY, room(None)) if complete else (no_update, no_update)
        said = html.Span(again(error), className="failed")
        return shown[0], said, shown[1], no_update, no_update, False
    figure: Figure | Patch = chart.figure or _EMPTY
    if chart.figure is not None and not complete:
        figure = Patch()
        figure["data"] = chart.figure["data"]
        figure["layout"] = chart.figure["layout"]
    links = context.chart_links("run", str(run_id), name, asked=selection.query())
    kind = CHARTS[name]
    alone = (kind.several or kind.optional) and chart.figure is None
    return figure, chart.caption, room(chart), *links, alone


def again(error: Exception) -> str:
    """The error in one line, and that what failed is tried again."""
    return f"{reason(error)} It is tried again every {SLOW_TICK_MS // 1000} s."


def reason(error: Exception) -> str:
    """An error in one line; unexpected errors go to the server's log as well."""
    if isinstance(error, ProbeError):
        return f"{error}."
    place = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"dashboard: {type(error).__name__}: {error} ({place.filename}:{place.lineno})"[:500],
        file=sys.stderr,
        flush=True,
    )
    return f"This cannot be shown: {type(error).__name__}."
