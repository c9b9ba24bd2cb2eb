"""What can be measured on this machine: ``probe doctor`` as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, dcc, html

from probe.errors import ProbeError
from probe.report.numbers import duration

from .. import ids
from ..components import notice, shell, table, trouble, with_code
from ..context import desk

TITLE = "Sensors"


def layout(**_: Any) -> Any:
    """The page; sensors are opened once it is there."""
    return shell(
        html.P("What a run that is started on this machine would measure.", className="soft"),
        html.Button("Look again", id=ids.EXAMINE, type="button"),
        dcc.Loading(html.Div(id=ids.SENSORS, className="results"), type="dot", delay_show=200),
        title=TITLE,
    )


def register(app: Dash) -> None:
    """Asked at once, and again by the button."""

    @app.callback(Output(ids.SENSORS, "children"), Input(ids.EXAMINE, "n_clicks"))
    def examined(clicks: Any) -> Any:
        try:
            return findings(desk().sensors.examine(again=bool(clicks)))
        except ProbeError as error:
            return trouble(error)
        except (KeyError, TypeError, AttributeError, ValueError):
            return trouble(
                "`probe doctor` says something that this page does not understand: "
                "are both of one version?"
            )


def findings(found: Mapping[str, Any]) -> list[Any]:
    """Sensors with their sources; what is missing with what mends it, one reason once."""
    shown: list[Any] = []
    missing: dict[tuple[str, str], list[str]] = {}
    for sensor in found["sensors"]:
        for one in sensor["absent"]:
            key = str(one["reason"]), str(one["remedy"] or "")
            missing.setdefault(key, []).append(str(one["what"]))
        rows = [
            [
                one["device"],
                one["quantity"].replace("_", " "),
                one["method"],
                one["provenance"],
                "yes" if one["in_total"] else "no",
                duration(one["resolution_s"]) if one["resolution_s"] else "",
                one["note"],
            ]
            for one in sensor["sources"]
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
        shown.append(html.H2("Not there"))
    for (reason, remedy), names in missing.items():
        text: list[Any] = [html.Strong(", ".join(names)), f": {reason}"]
        shown.append(notice([*text, html.Pre(remedy)] if remedy else text, "warn"))
    versions = [[name, version or "not installed"] for name, version in found["versions"].items()]
    shown += [
        html.H2("Versions"),
        table(["package", "version"], [*versions, ["python", found["python"]]], caption="Versions"),
    ]
    return shown
