"""A run's page as one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dash import dcc, html

from probe.errors import StoreError

from ..chart_data import Chart
from ..components import chart_table
from ..context import AppContext
from ..data.logged import names
from ..data.run import OpenRun
from ..figures.logged import AXES
from ..page import Query
from ..run_charts import CHARTS, draw
from ..snapshot.hidden import hidden_of
from ..snapshot.still import Still, variants
from ..urls import Selection
from ._run_about import cards_of, origin
from ._run_summary import head, meters, notices, strip

_MOST_VALUES = 6  # logged values that are in the file, each over every axis
_MOST_ROWS = 100  # of the figures behind a chart


def still(context: AppContext, parts: Mapping[str, str], asked: Query, is_open: bool) -> Still:
    """The page of ``parts["run_id"]``; the query is that of the page. Raises StoreError."""
    run = context.library.open(parts["run_id"])
    selection = Selection.of({key: values[0] for key, values in asked.items() if values})
    report = run.report_now()
    body: list[Any] = [head(report), strip(report, run.power_limit_w()), notices(report)]
    cards = [card for name in CHARTS if (card := _card(run, name, selection)) is not None]
    body.append(html.Div(cards, className="cards"))
    body.append(html.Section([html.H2("What to try"), cards_of(run.advice())], className="card"))
    folded = [("How well it was measured: meters, rates, gaps", meters(report, run.rates()))]
    if is_open:
        folded.append(("Command, configuration, code", origin(run.origin())))
    body += [
        html.Details([html.Summary(title), html.Div(part)], className="card")
        for title, part in folded
    ]
    title = report.run.title
    return Still(
        title, f"phasewatt-{title}", html.Main(body, className="wide"), hidden_of([run], is_open)
    )


def _still_card(title: str, shown: Chart, *, wide: bool = False, figure: Any = None) -> Any:
    """A chart with its caption and, folded, the figures behind it."""
    rows: Any = ""
    if 0 < len(shown.rows) <= _MOST_ROWS:
        short = replace(shown, rows=[[_cell(cell) for cell in row] for row in shown.rows])
        numbers = [
            i for i in range(len(shown.columns)) if isinstance(shown.rows[0][i], int | float)
        ]
        rows = html.Details(
            [html.Summary("Figures"), chart_table(short, caption=title, numbers=numbers)]
        )
    return html.Section(
        [
            html.H2(title),
            html.P(shown.caption, className="caption"),
            figure or dcc.Graph(figure=shown.figure),
            rows,
        ],
        className="card wide" if wide else "card",
    )


def _cell(cell: Any) -> Any:
    if cell is None:
        return "—"
    return f"{cell:.4g}" if isinstance(cell, float) else cell


def _card(run: OpenRun, name: str, selection: Selection) -> Any:
    kind = CHARTS[name]
    try:
        shown = draw(run, name, selection)
    except (StoreError, OSError, ValueError, KeyError) as error:
        return html.Section([html.H2(kind.title), html.P(f"Not shown: {error}")], className="card")
    if shown.figure is None and not shown.rows:
        return None
    if not kind.values:
        return _still_card(kind.title, shown, wide=kind.wide)
    by_value = [
        (value, variants("over", _over_each(run, name, value, selection)))
        for value in names(run)[:_MOST_VALUES]
    ]
    return _still_card(kind.title, shown, wide=True, figure=variants("value", by_value))


def _over_each(run: OpenRun, name: str, value: str, selection: Selection) -> list[tuple[str, Any]]:
    """A figure for each axis that the run has."""
    entries = []
    for over, word in AXES.items():
        drawn = draw(run, name, replace(selection, value=value, over=over)).figure
        if drawn is not None and drawn["layout"]["meta"] == {"over": over}:
            entries.append((word, dcc.Graph(figure=drawn)))
    return entries
