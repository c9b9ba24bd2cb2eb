"""One run: how it stands, which phase burns it, when, and how sure that is."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, Patch, State, ctx, dcc, html, no_update
from flask import has_request_context, request

from probe.errors import ProbeError
from probe.model import Provenance

from .. import urls
from ..chart_data import Figure
from ..components import DAMAGED, cannot_show, card, part_id, room, shell, trouble
from ..context import AppContext, app_context
from ..data.power import main_meters
from ..figures.heatmap import comparable
from ..page import Address, ChartTable, Page
from ..run_charts import CHARTS, TABLES, ChartKind, draw
from ..urls import Selection
from . import _labels
from ._run_choices import choices
from ._run_summary import head, meters, notices, strip

_TICK_MS, _SLOW_TICK_MS = 500, 5000
_EMPTY: Figure = {"data": [], "layout": {}}

# Ids. Stores: which run; the query of what is selected, which page.js writes; what the rest of the
# page draws once the first chart is there; the newest that is shown.
_RUN, _SPAN, _LATER, _SEEN = "run", "span", "later", "seen"
_TICK, _SLOW_TICK = "tick", "slow-tick"  # twice a second while a run is live; every few seconds
_HEAD, _STRIP, _NOTICES, _METERS = "run-head", "strip", "notices", "run-meters"
_SLOW = [*(name for name, kind in CHARTS.items() if not kind.first), _METERS]


def _slow(name: str) -> dict[str, str]:
    """Store: the newest that is shown in what is drawn again every few seconds."""
    return part_id("slow", name)


def _layout(context: AppContext, address: Address) -> Any:
    """``t`` and ``d`` of the query as in :class:`Selection`."""
    run_id = str(address.get("run_id", ""))
    try:
        run = context.library.open(run_id)
        live, newest = run.live, run.newest()
        sources = [meter.source for meter in main_meters(run.meters())]
    except DAMAGED as error:
        return cannot_show(error, context.href("/"))
    selection = Selection.of(address.get("t"), address.get("d"))
    links = choices(context, run_id, [source.device for source in sources], selection)
    together = len(comparable([source.provenance is Provenance.MODELLED for source in sources]))
    cards = [
        card(
            name,
            kind.title,
            wide=kind.wide,
            extra=links if name == "power" else (),
            hidden=kind.several and together < 2,
        )
        for name, kind in CHARTS.items()
    ]
    return shell(
        dcc.Store(id=_RUN, data=run_id),
        dcc.Store(id=_SPAN, data=selection.query()),
        dcc.Store(id=_LATER),
        dcc.Store(id=_SEEN, data=newest),
        *(dcc.Store(id=_slow(name), data=newest) for name in _SLOW),
        dcc.Interval(id=_TICK, interval=_TICK_MS, disabled=not live),
        dcc.Interval(id=_SLOW_TICK, interval=_SLOW_TICK_MS),
        html.Div(id=_HEAD),
        *_labels.place(context, run_id),
        html.Div(id=_STRIP),
        html.Div(id=_NOTICES),
        html.Div(cards, className="cards"),
        html.Section(
            [html.H2("How well it was measured"), html.Div(id=_METERS)], className="card wide"
        ),
        wide=True,
    )


def _callbacks(app: Dash) -> None:
    """What is shown follows the run; a chart over time follows its zoom and the devices."""

    @app.callback(
        Output(_HEAD, "children"),
        Output(_STRIP, "children"),
        Output(_NOTICES, "children"),
        Output(_SEEN, "data"),
        Output(_TICK, "disabled"),
        Input(_RUN, "data"),
        Input(_TICK, "n_intervals"),
        Input(_SLOW_TICK, "n_intervals"),
        State(_SEEN, "data"),
    )
    def follow(run_id: Any, _tick: Any, _slow: Any, seen: Any) -> Any:
        try:
            run = app_context().library.open(str(run_id))
            newest = run.newest()
            first = not ctx.triggered_id or ctx.triggered_id == _RUN
            if newest == seen and not first:
                return (no_update,) * 5
            report, limit_w = run.report_now(), run.power_limit_w()
        except DAMAGED as error:
            gone = f"gone {type(error).__name__}"
            if gone == seen:
                return (no_update,) * 5
            lost = trouble(f"{error}. What is below is what was last seen of it.")
            return no_update, no_update, lost, gone, True
        changed = no_update if newest == seen else newest
        ended = True if report.final else no_update
        return head(report), strip(report, limit_w), notices(report), changed, ended

    _labels.callbacks(app, _RUN)
    for name, kind in CHARTS.items():
        _draw_and_follow(app, name, kind)
    app.clientside_callback(
        ClientsideFunction("phasewatt", "later"),
        Output(_LATER, "data"),
        Input(part_id("graph", "power"), "figure"),
        State(_RUN, "data"),
        State(_SPAN, "data"),
        State(_LATER, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("phasewatt", "slowly"),
        [Output(_slow(name), "data") for name in _SLOW],
        Input(_SLOW_TICK, "n_intervals"),
        Input(_TICK, "disabled"),
        State(_SEEN, "data"),
        *(State(_slow(name), "data") for name in _SLOW),
        prevent_initial_call=True,
    )
    zoomed = [name for name, kind in CHARTS.items() if kind.time and name != "anatomy"]
    app.clientside_callback(
        ClientsideFunction("phasewatt", "zoomed"),
        Output(_SPAN, "data"),
        *(Input(part_id("graph", name), "relayoutData") for name in zoomed),
        *(State(part_id("graph", name), "figure") for name in zoomed),
        State(_SPAN, "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output(_METERS, "children"),
        Input(_LATER, "data"),
        Input(_slow(_METERS), "data"),
        State(_RUN, "data"),
        prevent_initial_call=True,
    )
    def follow_meters(_later: Any, _seen: Any, run_id: Any) -> Any:
        try:
            run = app_context().library.open(str(run_id))
            return meters(run.report_now(), run.rates())
        except Exception as error:
            return trouble(_reason(error))


def _draw_and_follow(app: Dash, name: str, kind: ChartKind) -> None:
    """Draw a chart at once, and again when there is new data or another part is selected.

    Two callbacks: one that also followed ``_SEEN`` would wait for it before it drew at all.
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

        @app.callback(*outputs, Input(_RUN, "data"), State(_SPAN, "data"))
        def draw_first(run_id: Any, asked: Any) -> Any:
            return _answer(name, run_id, asked, complete=True)
    else:

        @app.callback(*outputs, Input(_LATER, "data"), prevent_initial_call=True)
        def draw_later(asked: Any) -> Any:
            asked = asked if isinstance(asked, dict) else {}
            return _answer(name, asked.get("run"), asked, complete=True)

    @app.callback(
        *(Output(*part, allow_duplicate=True) for part in parts),
        Input(_SEEN if kind.first else _slow(name), "data"),
        Input(_SPAN, "data") if kind.first and kind.time else State(_SPAN, "data"),
        State(_RUN, "data"),
        prevent_initial_call=True,
    )
    def follow(_seen: Any, asked: Any, run_id: Any) -> Any:
        return _answer(name, run_id, asked, complete=False)


def _answer(name: str, run_id: Any, asked: Any, *, complete: bool) -> Any:
    """A chart for its card: complete at first, later what changed, so that zoom and hover stay."""
    asked = asked if isinstance(asked, dict) else {}
    selection = Selection.of(asked.get("t"), asked.get("d"))
    context = app_context()
    try:
        chart = draw(context.library.open(str(run_id)), name, selection)
    except Exception as error:
        # One chart that cannot be drawn must not take the others with it; what is drawn stays.
        shown = (_EMPTY, room(None)) if complete else (no_update, no_update)
        return shown[0], _reason(error), shown[1], no_update, no_update, False
    figure: Figure | Patch = chart.figure or _EMPTY
    if chart.figure is not None and not complete:
        figure = Patch()
        figure["data"] = chart.figure["data"]
        figure["layout"] = chart.figure["layout"]
    links = context.chart_links("run", str(run_id), name, asked=selection.query())
    alone = CHARTS[name].several and chart.figure is None
    return figure, chart.caption, room(chart), *links, alone


def _reason(error: Exception) -> str:
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


def _table(context: AppContext, run_id: str, name: str) -> ChartTable:
    selection = Selection.of(request.args.get("t"), request.args.get("d"))
    title = TABLES[name].title
    chart = draw(context.library.open(run_id), name, selection)
    return ChartTable(title, f"{run_id}-{name}", chart)


def _prefetch(context: AppContext, run_id: str) -> None:
    """Begin to make the chart that the page asks for first."""

    def work() -> None:
        with contextlib.suppress(Exception):  # the page's own request will show the error
            draw(context.library.open(run_id), "power", Selection())  # more would hold up the page

    threading.Thread(target=work, daemon=True).start()


def _title(run_id: str = "", **_: str) -> str:
    """Of the browser's tab: the run's name, or its id where it has none."""
    name = ""
    if has_request_context():
        with contextlib.suppress(ProbeError):  # the page itself says so
            name = app_context().library.open(run_id).reader.meta.get("name") or ""
    return f"{name or run_id} · phasewatt"


PAGE = Page(
    path=f"{urls.RUN}<run_id>",
    title=_title,
    layout=_layout,
    callbacks=_callbacks,
    tables={"run/<run_id>/<name>": _table},
    prefetch=_prefetch,
)
