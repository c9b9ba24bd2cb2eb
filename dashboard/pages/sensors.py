"""What can be measured on this machine: ``probe doctor`` as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, dcc, html

from probe.errors import ProbeError
from probe.report.numbers import duration

from .. import urls
from ..components import as_one_file, notice, shell, table, trouble, with_code
from ..context import AppContext, app_context
from ..data.sensors import Diagnosis
from ..page import Address, Page, Query
from ..snapshot.hidden import hidden_of_machine
from ..snapshot.still import Still

_SENSORS, _EXAMINE = "sensors", "examine"  # ids


def _layout(context: AppContext, _address: Address) -> Any:
    """The page without results, which come when the sensors have been examined."""
    return shell(
        html.P("What a run that is started on this machine would measure.", className="soft"),
        html.Button("Look again", id=_EXAMINE, type="button"),
        as_one_file(context.href(urls.snapshot("sensors"))),
        dcc.Loading(
            html.Div(id=_SENSORS, className="results expected"), type="dot", delay_show=200
        ),
        title="Sensors",
    )


def _callbacks(app: Dash) -> None:
    """The sensors are examined when the page opens, and again by the button."""

    @app.callback(Output(_SENSORS, "children"), Input(_EXAMINE, "n_clicks"))
    def examined(clicks: Any) -> Any:
        try:
            return _findings(app_context().sensors.examine(again=bool(clicks)))
        except ProbeError as error:
            return trouble(error)
        except (KeyError, TypeError, AttributeError, ValueError):
            return trouble(
                "`probe doctor` says something that this page does not understand: "
                "are both of one version?"
            )


def _still(context: AppContext, _: Mapping[str, str], _asked: Query, is_open: bool) -> Still:
    """What can be measured, as one file. Raises StoreError."""
    body = [html.H1("Sensors"), *_findings(context.sensors.examine())]
    hidden = hidden_of_machine(context.directory, is_open)
    return Still("Sensors", "phasewatt-sensors", html.Main(body), hidden)


def _findings(answer: Diagnosis) -> list[Any]:
    """Sensors with their sources; then what is missing, each reason once, with its remedy."""
    shown: list[Any] = []
    missing: dict[tuple[str, str], list[str]] = {}
    for sensor in answer["sensors"]:
        for absent in sensor["absent"]:
            key = str(absent["reason"]), str(absent["remedy"] or "")
            missing.setdefault(key, []).append(str(absent["what"]))
        rows = [
            [
                source["device"],
                source["quantity"].replace("_", " "),
                source["method"],
                source["provenance"],
                "yes" if source["in_total"] else "no",
                duration(source["resolution_s"]) if source["resolution_s"] else "",
                source["note"],
            ]
            for source in sensor["sources"]
        ]
        if rows:
            shown += [
                html.H2(sensor["sensor"]),
                table(
                    ["device", "quantity", "by", "kind", "in the total", "updates every", "remark"],
                    rows,
                    caption=sensor["sensor"],
                ),
            ]
        shown += [notice(with_code(line), "warn") for line in sensor["warnings"]]
    if missing:
        shown.append(html.H2("Missing"))
    for (reason, remedy), names in missing.items():
        text: list[Any] = [html.Strong(", ".join(names)), f": {reason}"]
        shown.append(notice([*text, html.Pre(remedy)] if remedy else text, "warn"))
    versions = [[name, version or "not installed"] for name, version in answer["versions"].items()]
    shown += [
        html.H2("Versions"),
        table(
            ["package", "version"], [*versions, ["python", answer["python"]]], caption="Versions"
        ),
    ]
    return shown


PAGE = Page(
    path="/sensors",
    title="Sensors · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    navigation=(3, "Sensors"),
    stills={"sensors": _still},
)
