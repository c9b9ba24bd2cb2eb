"""A page as one file: its parts as plain HTML, its figures with plotly's own script inlined.

The file makes no network request: its content security policy forbids it. :mod:`hidden` takes
command, paths, hosts, users and configuration out of every text, unless `--with-origin` is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from dash import html
from dash.development.base_component import Component

from .hidden import Hidden

MOST_BYTES = 5_000_000
_ASSETS = Path(__file__).parents[1] / "assets"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_EMPTY = ("Img", "Br", "Hr")
# What only a server could answer: forms, links, stores.
_LEFT_OUT = ("Store", "Interval", "Input", "Textarea", "Dropdown", "Location", "Form", "Label")
_NO_USE = ("actions", "tick-cell")  # classes
_VARIANT = "variant"
_ATTRIBUTES = {
    "className": "class",
    "title": "title",
    "role": "role",
    "scope": "scope",
    "tabIndex": "tabindex",
    "colSpan": "colspan",
    "rowSpan": "rowspan",
    "src": "src",
    "alt": "alt",
    "type": "type",
    "open": "open",
}
_TAGS = frozenset(
    "Main Header Section Div Span P H1 H2 H3 H4 Ul Ol Li Dl Dt Dd Small Strong Code Pre Table "
    "Caption Thead Tbody Tr Th Td Details Summary Nav Button Img Br".split()
)


@dataclass(frozen=True, slots=True)
class Still:
    """What a page hands over to become a file.

    ``body`` is made of the page's own parts; ``name`` is the file's, without its ending.
    """

    title: str
    name: str
    body: Any
    hidden: Hidden


def document(still: Still) -> bytes:
    """The file. Raises ValueError if it is larger than :data:`MOST_BYTES`."""
    figures: list[Mapping[str, Any]] = []
    body = _markup(still.body, still.hidden.text, figures)
    drawn = json.dumps(still.hidden.json(figures), separators=(",", ":"), allow_nan=False)
    title = escape(still.hidden.text(still.title))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        "<meta name='referrer' content='no-referrer'>"
        f"<title>{title} · phasewatt</title><link rel='icon' href='data:,'><style>",
        _asset("style.css"),
        "</style></head><body><header class='top'><span class='mark'>phasewatt</span>"
        "<span class='soft still'>a snapshot: hover, drag to zoom, double-click to see all</span>"
        "<button type='button' id='theme'>Light or dark</button></header>",
        body,
        "<script type='application/json' id='figures'>",
        drawn.replace("<", "\\u003c"),
        "</script><script>",
        _asset("plotly-cartesian.min.js").replace("</script", "<\\/script"),
        "</script><script>",
        _asset("still.js"),
        "</script></body></html>",
    ]
    content = "".join(parts).encode()
    if len(content) > MOST_BYTES:
        raise ValueError(f"it would have {len(content)} bytes, more than {MOST_BYTES}")
    return content


def variants(name: str, entries: Sequence[tuple[str, Any]]) -> Any:
    """Parts of which one is shown at a time, with a button for each; ``name`` says of what."""

    def attributes(place: int, **more: str) -> Any:
        return {"data-variant": str(place)} | {f"aria-{key}": text for key, text in more.items()}

    buttons = [
        html.Button(
            label,
            type="button",
            className=_VARIANT,
            **attributes(place, pressed="false" if place else "true"),
        )
        for place, (label, _) in enumerate(entries)
    ]
    shown = [
        html.Div(part, className="part away" if place else "part", **attributes(place))
        for place, (_, part) in enumerate(entries)
    ]
    return html.Div(
        [html.Div([html.Span(name), *buttons], className="spans"), *shown], className="variants"
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _markup(part: Any, text: Callable[[str], str], figures: list[Mapping[str, Any]]) -> str:
    """Dash's components as HTML; figures are put aside and leave a place."""
    if part is None or part is False or part is True:
        return ""
    if isinstance(part, list | tuple):
        return "".join(_markup(item, text, figures) for item in part)
    if not isinstance(part, Component):
        return escape(text(str(part)))
    props = part.to_plotly_json()["props"]
    kind = str(part._type)
    if props.get("hidden") or kind in _LEFT_OUT or props.get("className") in _NO_USE:
        return ""
    if kind == "Button" and props.get("className") != _VARIANT:
        return ""
    if kind == "Graph":
        figure = props.get("figure") or {}
        if not figure.get("data"):
            return ""
        figures.append(figure)
        height = int(figure["layout"]["height"])
        return (
            f"<div class='graph' data-figure='{len(figures) - 1}' style='height:{height}px'></div>"
        )
    inner = _markup(props.get("children"), text, figures)
    if kind not in _TAGS:  # a link, a loading mark
        return f"<span>{inner}</span>" if kind in ("A", "Link") else inner
    tag = kind.lower()
    shown = {_ATTRIBUTES.get(key, key): value for key, value in props.items()}
    kept = "".join(
        f' {key}="{escape(text(str(value)), quote=True)}"'
        for key, value in shown.items()
        if value not in (None, "", False)
        and (key in _ATTRIBUTES.values() or key.startswith(("aria-", "data-variant")))
        and key not in ("aria-labelledby",)
    )
    return f"<{tag}{kept}>" + ("" if kind in _EMPTY else f"{inner}</{tag}>")
