"""The ranks of one job: who waits, for whom, on which host, and what communication costs."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from probe.errors import ProbeError

from .. import urls
from ..chart_data import Crew
from ..components import card, shell, table, trouble
from ..context import Desk, desk
from ..data.ranks import crew
from ..figures.ranks import communication, costs, people, places, tries
from ..run_charts import drawn

_EVERY_MS = 5000
_BODY, _TICK, _RUN = "ranks-body", "ranks-tick", "ranks-run"


def title(run_id: str = "", **_: Any) -> str:
    """Of the browser's tab."""
    return f"Ranks of {run_id} · phasewatt"


def layout(run_id: str = "", **_: Any) -> Any:
    """The page of a run's ranks."""
    of = desk()
    back = dcc.Link(f"back to {run_id}", href=of.href(urls.run(run_id)))
    try:
        body, live = _body(of, run_id)
    except (ProbeError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return shell(
            trouble(error),
            dcc.Link("All runs", href=of.href("/")),
            title="This run cannot be shown",
        )
    return shell(
        dcc.Store(id=_RUN, data=run_id),
        dcc.Interval(id=_TICK, interval=_EVERY_MS, disabled=not live),
        html.P(back, className="soft"),
        html.Div(body, id=_BODY),
        title="Ranks",
        wide=True,
    )


def register(app: Dash) -> None:
    """What is shown of a run that goes on is looked for every few seconds."""

    @app.callback(
        Output(_BODY, "children"),
        Output(_TICK, "disabled"),
        Input(_TICK, "n_intervals"),
        State(_RUN, "data"),
        prevent_initial_call=True,
    )
    def follow(_ticks: Any, run_id: Any) -> Any:
        try:
            body, live = _body(desk(), str(run_id))
        except (ProbeError, OSError, ValueError, KeyError, TypeError, AttributeError):
            return no_update, True  # what was seen stays
        return body, not live


def _body(of: Desk, run_id: str) -> tuple[list[Any], bool]:
    run = of.library.open(run_id)
    told = crew(run)
    if len(told.ranks) < 2:
        return [html.P("This run is of one rank.", className="notice")], told.live
    state = urls.State()
    hrefs = {
        view: (
            of.href(urls.data(urls.TABLE, run_id, view, state)),
            of.href(urls.data(urls.CSV, run_id, view, state)),
        )
        for view in ("waiting", "communication")
    }
    cards = [
        card(
            "waiting",
            "Waiting for other ranks",
            chart=drawn(run, "waiting", state),
            hrefs=hrefs["waiting"],
            wide=True,
        )
    ]
    body = html.Div([*cards, *_tables(told, hrefs["communication"])], className="cards")
    return [body], told.live


def _tables(told: Crew, hrefs: tuple[str, str]) -> list[Any]:
    shown: list[Any] = []
    for heading, note, head, rows, numbers in (
        (
            "Communication",
            communication(told).caption,
            ["rank", "blocking", "busy", "exposed at least", "exposed + contention", "how"],
            costs(told),
            (1, 2, 3, 4),
        ),
        (
            "Ranks",
            "",
            ["rank", "host", "steps", "devices of its own", "energy"],
            people(told),
            (2, 4),
        ),
        (
            "Hosts",
            "",
            ["host", "status", "ranks", "energy", "its clock", "ended by"],
            places(told),
            (3,),
        ),
        (
            "Attempts",
            "Ranks that were started again; lost is what came after the last checkpoint.",
            ["attempt", "host", "from (s)", "to (s)", "steps", "energy", "lost", "ended by"],
            tries(told),
            (2, 3, 4, 5, 6),
        ),
    ):
        if rows:
            shown.append(
                html.Section(
                    [
                        html.H2(heading),
                        html.P(note, className="caption") if note else None,
                        table(head, rows, caption=heading, numbers=numbers),
                        html.Div(
                            [
                                html.A("Table", href=hrefs[0]),
                                html.A("CSV", href=hrefs[1], download=""),
                            ],
                            className="actions",
                        )
                        if heading == "Communication"
                        else None,
                    ],
                    className="card wide",
                )
            )
    return shown
