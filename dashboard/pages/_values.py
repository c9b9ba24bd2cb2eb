"""Above the chart of what was logged: which value, and over what."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, html, no_update

from ..components import aria, data
from ..context import app_context
from ..data.logged import names, series
from ..figures.logged import offered
from ..urls import Selection

_PLACE = "values-choices"  # id
_MOST = 40  # names; more make no readable list


def place() -> Any:
    """Where the links stand."""
    return html.Div(id=_PLACE, className="choices-of-values")


def callbacks(app: Dash, later: str, slow: Any, span: str, run: str) -> None:
    """The links come when the first chart is there; arguments are ids of stores."""

    @app.callback(
        Output(_PLACE, "children"),
        Input(later, "data"),
        Input(slow, "data"),
        State(span, "data"),
        State(run, "data"),
        prevent_initial_call=True,
    )
    def offer(_later: Any, _slow: Any, asked: Any, run_id: Any) -> Any:
        try:
            selection = Selection.of(asked if isinstance(asked, dict) else {})
            opened = app_context().library.open(str(run_id))
            shown = series(opened, selection.value, selection.over, None)
            offered_names = names(opened)[:_MOST]
        except Exception:  # the chart says why
            return no_update
        if shown is None:
            return []
        return [
            _links("Value", "v", [(name, name) for name in offered_names], shown.name),
            _links("Over", "x", offered(shown.axes), shown.over),
        ]


def _links(label: str, key: str, entries: list[tuple[str, str]], chosen: str) -> Any:
    """Buttons that ``page.js`` hears: they change the address and the chart."""
    links: list[Any] = [
        html.A(
            word,
            href=f"?{key}={value}",
            className="on" if value == chosen else "",
            **data(**{key: value}),
            **aria(current="true" if value == chosen else "false"),
        )
        for value, word in entries
    ]
    return html.Nav([html.Span(label.lower()), *links], className="spans", **aria(label=label))
