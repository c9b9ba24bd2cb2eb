"""The ranks of one job: waiting, hosts, attempts, and the cost of communication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from .. import urls
from ..chart_data import JobView
from ..components import DAMAGED, as_one_file, cannot_show, card, run_tabs, shell, table
from ..context import AppContext, app_context, name_of_run
from ..data.ranks import job_view
from ..figures.ranks import attempt_rows, communication, cost_rows, host_rows, rank_rows
from ..page import Address, Page, Query
from ..run_charts import draw
from ..snapshot.hidden import hidden_of
from ..snapshot.still import Still
from ..urls import Selection

_TICK_MS = 5000
_BODY, _TICK, _RUN = "ranks-body", "ranks-tick", "ranks-run"  # ids; the last is a store


def _layout(context: AppContext, address: Address) -> Any:
    run_id = str(address.get("run_id", ""))
    try:
        body, live = _body(context, run_id)
        reader = context.library.open(run_id).reader
        title = f"Ranks of {reader.meta.get('name') or run_id}"
        ranks = len(reader.ranks())
    except DAMAGED as error:
        return cannot_show(error, context.href("/"))
    return shell(
        dcc.Store(id=_RUN, data=run_id),
        dcc.Interval(id=_TICK, interval=_TICK_MS, disabled=not live),
        run_tabs(context, run_id, ranks, of_ranks=True),
        as_one_file(context.href(urls.snapshot("ranks", run_id))),
        html.Div(body, id=_BODY),
        title=title,
        wide=True,
    )


def _callbacks(app: Dash) -> None:
    """The page of a live run is updated every few seconds."""

    @app.callback(
        Output(_BODY, "children"),
        Output(_TICK, "disabled"),
        Input(_TICK, "n_intervals"),
        State(_RUN, "data"),
        prevent_initial_call=True,
    )
    def follow(_ticks: Any, run_id: Any) -> Any:
        try:
            body, live = _body(app_context(), str(run_id))
        except DAMAGED:
            return no_update, True  # keep what is shown
        return body, not live


def _body(context: AppContext, run_id: str) -> tuple[list[Any], bool]:
    run = context.library.open(run_id)
    job = job_view(run)
    if len(job.ranks) < 2:
        return [html.P("This run is of one rank.", className="notice")], job.live
    waiting = card(
        "waiting",
        "Waiting for other ranks",
        chart=draw(run, "waiting", Selection()),
        hrefs=context.chart_links("run", run_id, "waiting"),
        wide=True,
    )
    tables = _tables(job, context.chart_links("run", run_id, "communication"))
    return [html.Div([waiting, *tables], className="cards")], job.live


def _still(context: AppContext, parts: Mapping[str, str], _asked: Query, is_open: bool) -> Still:
    """The ranks of ``parts["run_id"]`` as one file. Raises StoreError."""
    run_id = parts["run_id"]
    run = context.library.open(run_id)
    title = f"Ranks of {run.reader.meta.get('name') or run_id}"
    body = [html.H1(title), *_body(context, run_id)[0]]
    main = html.Main(body, className="wide")
    return Still(title, f"phasewatt-{title}", main, hidden_of([run], is_open))


def _tables(job: JobView, hrefs: tuple[str, str]) -> list[Any]:
    links = html.Div(
        [html.A("Table", href=hrefs[0]), html.A("CSV", href=hrefs[1], download="")],
        className="actions",
    )
    sections: list[Any] = []
    for heading, note, head, rows, numbers in (
        (
            "Communication",
            communication(job).caption,
            ["rank", "blocking", "busy", "exposed at least", "exposed + contention", "how"],
            cost_rows(job),
            (1, 2, 3, 4),
        ),
        (
            "Ranks",
            "",
            ["rank", "host", "steps", "devices of its own", "energy"],
            rank_rows(job),
            (2, 4),
        ),
        (
            "Hosts",
            "",
            ["host", "status", "ranks", "energy", "its clock", "ended by"],
            host_rows(job),
            (3,),
        ),
        (
            "Attempts",
            "Ranks that were started again; lost is what came after the last checkpoint.",
            ["attempt", "host", "from (s)", "to (s)", "steps", "energy", "lost", "ended by"],
            attempt_rows(job),
            (2, 3, 4, 5, 6),
        ),
    ):
        if rows:
            parts = [
                html.H2(heading),
                html.P(note, className="caption") if note else None,
                table(head, rows, caption=heading, numbers=numbers),
                links if heading == "Communication" else None,
            ]
            sections.append(html.Section(parts, className="card wide"))
    return sections


PAGE = Page(
    path=f"{urls.RANKS}<run_id>",
    title=lambda run_id="", **_: f"Ranks of {name_of_run(run_id)} · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    stills={"ranks/<run_id>": _still},
)
