"""One run: how it stands, which phase burns it, when, and how sure that is."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from flask import request

from .. import urls
from ..components import DAMAGED, as_one_file, cannot_show, card, part_id, run_tabs, shell, trouble
from ..context import AppContext, app_context, name_of_run
from ..data.power import main_meters
from ..page import Address, ChartTable, Page
from ..run_charts import CHARTS, TABLES, draw, rooms
from ..urls import Selection
from . import _labels, _run_charts, _run_still, _values
from ._run_about import cards_of, origin
from ._run_choices import choices
from ._run_summary import head, meters, notices, strip

_TICK_MS = 500
_NO_TICK_MS = 3_600_000

# Ids. Stores: which run; the query of what is selected, which page.js writes; what the rest of the
# page draws once the first chart is there; the newest that is shown.
_RUN, _SPAN, _LATER, _SEEN = "run", "span", "later", "seen"
# Twice a second while a run is live; every few seconds, for the head and for the rest of the page.
# Two, as each answer for the head begins its ticks anew: those of the rest would never come.
_TICK, _SLOW_TICK, _REST_TICK = "tick", "slow-tick", "rest-tick"
_HEAD, _STRIP, _NOTICES, _METERS = "run-head", "strip", "notices", "run-meters"
_ADVICE, _ORIGIN, _LOST = "run-advice", "run-origin", "run-lost"
_IDS = _run_charts.Stores(_RUN, _SPAN, _LATER, _SEEN)
_BELOW = {  # below the charts: id → what is shown there
    _METERS: lambda run: meters(run.report_now(), run.rates()),
    _ADVICE: lambda run: cards_of(run.advice()),
    _ORIGIN: lambda run: origin(run.origin()),
}
_SLOW = [*CHARTS, *_BELOW]
_TO_COME = html.P("Being worked out …", className="caption")


def _slow(name: str) -> dict[str, str]:
    """Store: the newest that is shown in what is drawn again every few seconds."""
    return part_id(_run_charts.SLOW, name)


def _layout(context: AppContext, address: Address) -> Any:
    """``t`` and ``d`` of the query as in :class:`Selection`."""
    run_id = str(address.get("run_id", ""))
    try:
        run = context.library.open(run_id)
        live, newest = run.live, run.newest()
        sources = [meter.source for meter in main_meters(run.meters())]
        expected = rooms(run)
    except DAMAGED as error:
        return cannot_show(error, context.href("/"))
    selection = Selection.of(address)
    links = choices(context, run_id, [source.device for source in sources], selection)
    cards = [
        card(
            name,
            kind.title,
            wide=kind.wide,
            full=kind.several,
            extra=links if name == "power" else [_values.place()] if kind.values else (),
            hidden=name not in expected,
            height=expected.get(name, kind.height),
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
        dcc.Interval(id=_SLOW_TICK, interval=_run_charts.SLOW_TICK_MS),
        dcc.Interval(id=_REST_TICK, interval=_run_charts.SLOW_TICK_MS),
        html.Div(id=_LOST),
        html.Div(id=_HEAD, className="head"),
        run_tabs(context, run_id, len(run.reader.ranks()), of_ranks=False),
        *_labels.place(context, run_id),
        as_one_file(context.href(urls.snapshot("run", run_id, asked=selection.query()))),
        html.Div(id=_STRIP, className="strip"),
        html.Div(cards, className="cards"),
        html.Div(id=_NOTICES),
        html.Section(
            [html.H2("What to try"), html.Div(_TO_COME, id=_ADVICE)], className="card wide"
        ),
        html.Details(
            [
                html.Summary("How well it was measured: meters, rates, gaps"),
                html.Div(_TO_COME, id=_METERS),
            ],
            className="card wide",
        ),
        html.Details(
            [html.Summary("Command, configuration, code"), html.Div(_TO_COME, id=_ORIGIN)],
            className="card wide",
        ),
        wide=True,
    )


def _callbacks(app: Dash) -> None:
    """What is shown follows the run; a chart over time follows its zoom and the devices."""

    @app.callback(
        Output(_HEAD, "children"),
        Output(_STRIP, "children"),
        Output(_NOTICES, "children"),
        Output(_LOST, "children"),
        Output(_SEEN, "data"),
        Output(_TICK, "disabled"),
        Input(_RUN, "data"),
        Input(_TICK, "n_intervals"),
        Input(_SLOW_TICK, "n_intervals"),
        State(_SEEN, "data"),
        # A tick in the meantime would make Dash drop the answer: on a busy machine, for ever.
        running=[
            (Output(_TICK, "interval"), _NO_TICK_MS, _TICK_MS),
            (Output(_SLOW_TICK, "interval"), _NO_TICK_MS, _run_charts.SLOW_TICK_MS),
        ],
    )
    def follow(run_id: Any, _tick: Any, _slow: Any, seen: Any) -> Any:
        try:
            run = app_context().library.open(str(run_id))
            newest = run.newest()
            first = not ctx.triggered_id or ctx.triggered_id == _RUN
            if newest == seen and not first:
                return (no_update,) * 6
            report, limit_w = run.report_now(), run.power_limit_w()
            figures = head(report), strip(report, limit_w), notices(report)
        except Exception as error:
            gone = f"gone {type(error).__name__}"
            if gone == seen:
                return (no_update,) * 6
            lost = trouble(f"{_run_charts.again(error)} What is below is what was last seen of it.")
            return (no_update,) * 3 + (lost, gone, True)
        changed = no_update if newest == seen else newest
        ended = True if report.final else no_update
        return *figures, [], changed, ended

    _labels.callbacks(app, _RUN)
    for name, kind in CHARTS.items():
        _run_charts.draw_and_follow(app, name, kind, _IDS)
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
        Input(_REST_TICK, "n_intervals"),
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

    for place in _BELOW:
        _fill_and_follow(app, place)
    _values.callbacks(app, _LATER, _slow("logged"), _SPAN, _RUN)


def _fill_and_follow(app: Dash, place: str) -> None:
    """Show what stands below the charts once the first chart is there, and again now and then."""

    @app.callback(
        Output(place, "children"),
        Input(_LATER, "data"),
        Input(_slow(place), "data"),
        State(_RUN, "data"),
        prevent_initial_call=True,
    )
    def fill(_later: Any, _seen: Any, run_id: Any) -> Any:
        try:
            return _BELOW[place](app_context().library.open(str(run_id)))
        except Exception as error:
            return trouble(_run_charts.again(error))


def _table(context: AppContext, run_id: str, name: str) -> ChartTable:
    selection = Selection.of(request.args)
    title = TABLES[name].title
    chart = draw(context.library.open(run_id), name, selection)
    return ChartTable(title, f"{run_id}-{name}", chart)


def _prefetch(context: AppContext, run_id: str) -> None:
    """Make the chart that the page asks for first; more would hold up the page."""
    draw(context.library.open(run_id), "power", Selection())


PAGE = Page(
    path=f"{urls.RUN}<run_id>",
    title=lambda run_id="", **_: f"{name_of_run(run_id)} · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    tables={"run/<run_id>/<name>": _table},
    stills={"run/<run_id>": _run_still.still},
    prefetch=_prefetch,
)
