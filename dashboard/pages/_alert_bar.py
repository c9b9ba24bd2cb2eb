"""Above every page: the alerts that hold now."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, dcc, html

from .. import urls
from ..context import AppContext, app_context

_EVERY_MS = 5000
_BAR, _TICK = "alert-bar", "alert-tick"  # ids
_MOST = 20


def place(context: AppContext) -> list[Any]:
    """Where they stand; nothing if the user has no rules."""
    if not context.alerts.is_on:
        return []
    # A live region: a screen reader says what is new in it.
    attributes: Any = {"aria-live": "polite", "aria-label": "Alerts"}
    return [
        dcc.Interval(id=_TICK, interval=_EVERY_MS),
        html.Section(_bar(context), id=_BAR, className="alerts", **attributes),
    ]


def callbacks(app: Dash) -> None:
    """They follow the runs."""

    @app.callback(Output(_BAR, "children"), Input(_TICK, "n_intervals"), prevent_initial_call=True)
    def follow(_ticks: Any) -> Any:
        return _bar(app_context())


def _bar(context: AppContext) -> list[Any]:
    alerts, problem = context.alerts.alerts(), context.alerts.problem()
    rows: list[Any] = [
        html.P(
            [
                html.Strong(f"{alert.rule} "),
                dcc.Link(alert.name, href=context.href(urls.run(alert.run_id))),
                f": {alert.detail}, since {alert.since[11:16]} UTC",
            ],
            className="alert",
        )
        for alert in alerts[:_MOST]
    ]
    if len(alerts) > _MOST:
        rows.append(html.P(f"{len(alerts) - _MOST} more alerts hold.", className="alert"))
    if problem:
        rows.append(html.P(f"An alert could not be sent: {problem}", className="alert"))
    return rows
