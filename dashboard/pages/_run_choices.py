"""Above the power chart: links to parts of the run and to single devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import html

from .. import urls
from ..components import aria
from ..context import AppContext
from ..urls import Selection

_MAX_LISTED_DEVICES = 24  # more make no readable list of boxes


def choices(
    context: AppContext, run_id: str, devices: Sequence[str], selection: Selection
) -> list[Any]:
    """Above the power chart: which part of the run, which devices.

    They are links, to be opened beside or shared; a plain click is ``page.js``'s, which changes the
    address and the charts without asking for the page again.
    """

    def link(label: str, to: Selection, on: bool, **data: str) -> Any:
        attributes: Any = {f"data-{key}": value for key, value in data.items()}
        return html.A(
            label,
            href=context.href(urls.run(run_id, to)),
            className="on" if on else "",
            **aria(current="true" if on else "false"),
            **attributes,
        )

    parts = [("whole run", selection.everything())]
    parts += [
        (label, Selection(None, seconds, selection.devices))
        for label, seconds in (("last minute", 60.0), ("last 10 min", 600.0))
    ]
    links = [link(label, to, to == selection, t=to.query().get("t", "")) for label, to in parts]
    navs: list[Any] = [html.Nav(links, className="spans", **aria(label="Part of the run"))]
    if 1 < len(devices) <= _MAX_LISTED_DEVICES:
        chosen = selection.devices
        boxes = [link("all devices", replace(selection, devices=()), not chosen, d="")]
        for device in devices:
            toggled = tuple(name for name in devices if (name in chosen) != (name == device))
            to = replace(selection, devices=toggled)
            boxes.append(link(device, to, device in chosen, d=device))
        navs.append(html.Nav(boxes, className="spans", **aria(label="Devices")))
    return navs
