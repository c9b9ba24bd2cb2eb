"""Building blocks of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from dash import dcc, html

from probe.errors import ProbeError

from . import urls
from .chart_data import Chart
from .context import AppContext

CONFIG: Any = {
    "displayModeBar": False,
    "displaylogo": False,
    "responsive": True,
    "doubleClick": "autosize",
}


# Errors of reading a run that is damaged, or was written by another version.
DAMAGED = (ProbeError, OSError, ValueError, KeyError, TypeError, AttributeError)


def aria(**values: str) -> dict[str, Any]:  # Dash's components take what any argument may be
    """ARIA attributes, for screen readers."""
    return {f"aria-{key}": value for key, value in values.items()}


def data(**values: str) -> dict[str, Any]:
    """Attributes that the page's scripts read: ``data-run`` and the like."""
    return {f"data-{key}": value for key, value in values.items()}


def part_id(part: str, name: str) -> dict[str, str]:
    """The id of a part of a chart's card: graph, caption, plot (the graph's room), card, links."""
    return {"type": part, "view": name}


def shell(*children: Any, title: str = "", sub: Sequence[Any] = (), wide: bool = False) -> Any:
    """A page: heading and what follows."""
    head = [html.H1(title)] if title else []
    return html.Main(
        [*head, *sub, *children], id="main", className="wide" if wide else "", tabIndex=-1
    )


def badge(status: str) -> Any:
    """The status of a run as a coloured word."""
    return html.Span(status, className=f"badge {status if status.isalpha() else ''}")


def tag_link(tag: str, home: str) -> Any:
    """A tag that leads to all runs which have it; ``home`` is the address of the list of runs."""
    return dcc.Link(tag, href=home + urls.query({"q": f'tag:"{tag}"'}), className="tag")


def tile(label: str, value: str, note: str = "", kind: str = "") -> Any:
    """One number with its label."""
    return html.Div(
        [html.Dt(label), html.Dd([value, html.Small(note) if note else ""])],
        className=f"tile {kind}".strip(),
    )


def tiles(children: Sequence[Any]) -> Any:
    """Tiles side by side, as many as fit."""
    return html.Dl(list(children), className="tiles")


def run_tabs(context: AppContext, run_id: str, ranks: int, *, of_ranks: bool) -> Any:
    """Tabs of a run of several ranks: the run itself, and its ranks; ``of_ranks``: that is here."""
    if ranks < 2:
        return ""
    entries = (
        ("Run", context.href(urls.run(run_id)), not of_ranks),
        (f"{ranks} ranks", context.href(urls.ranks(run_id)), of_ranks),
    )
    links = [
        html.Span(label, className="on", **aria(current="page"))
        if is_here
        else dcc.Link(label, href=href)
        for label, href, is_here in entries
    ]
    return html.Nav(links, className="tabs", **aria(label="Views of this run"))


def notice(text: Any, kind: str = "") -> Any:
    """A box with a message for the reader."""
    return html.Div(text, className=f"notice {kind}".strip(), role="status")


def as_one_file(href: str, what: str = "this page") -> Any:
    """The button that makes the page one file."""
    link = html.A(
        f"Snapshot: {what} as one file",
        href=href,
        download="",
        className="button",
        title="without command, paths, host, user and configuration",
    )
    return html.P(link, className="do")


def trouble(reason: object, *more: Any) -> Any:
    """A box that says why something cannot be shown."""
    return html.Div([html.P(str(reason)[:600]), *more], className="notice bad", role="alert")


def cannot_show(error: object, home: str) -> Any:
    """The page of a run that cannot be read; ``home`` is the address of the list of runs."""
    link = dcc.Link("All runs", href=home)
    return shell(trouble(error), link, title="This run cannot be shown")


def card(
    name: str,
    title: str,
    *,
    extra: Sequence[Any] = (),
    hrefs: tuple[str, str] | None = None,
    chart: Chart | None = None,
    wide: bool = False,
    full: bool = False,
    hidden: bool = False,
    height: int = 0,
) -> Any:
    """A chart with its caption, table, CSV and image.

    Filled later if ``chart`` is None; until then it keeps a room of ``height`` pixels.
    """
    graph = dcc.Graph(
        id=part_id("graph", name),
        config=CONFIG,
        className="graph",
        figure=chart.figure if chart and chart.figure else {"data": [], "layout": {}},
        responsive=True,
        style={"height": "100%"},
    )
    table, csv = hrefs or ("", "")
    return html.Section(
        [
            html.Div([html.H2(title, id=f"title-{name}"), *extra], className="card-head"),
            html.P(
                chart.caption if chart else "", id=part_id("caption", name), className="caption"
            ),
            html.Div(graph, className="plot", style=room(chart, height), id=part_id("plot", name)),
            html.Div(
                [
                    html.A("Table", href=table, id=part_id("links", name) | {"kind": "table"}),
                    html.A(
                        "CSV", href=csv, id=part_id("links", name) | {"kind": "csv"}, download=""
                    ),
                    html.Button("PNG", id=part_id("png", name), type="button", className="link"),
                ],
                className="actions",
            ),
        ],
        id=part_id("card", name),
        className=f"card of-{name}" + " wide" * wide + " full" * full,
        hidden=hidden,
        **aria(labelledby=f"title-{name}"),
    )


def room(chart: Chart | None, height: int = 0) -> dict[str, str]:
    """Style of the box around a figure: the height that its layout asks for.

    Args:
        height: of a figure that is still to come.
    """
    if chart is None and height:
        return {"height": f"{height}px"}
    if chart is None or chart.figure is None:
        return {"display": "none"}
    return {"height": f"{chart.figure['layout']['height']}px"}


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str = "",
    numbers: Sequence[int] = (),
) -> Any:
    """A plain table that scrolls by itself when it is too wide."""
    right = set(numbers)
    return html.Div(
        html.Table(
            [
                html.Caption(caption, className="hidden") if caption else None,
                html.Thead(
                    html.Tr(
                        [
                            html.Th(name, scope="col", className="n" if i in right else "")
                            for i, name in enumerate(head)
                        ]
                    )
                ),
                html.Tbody(
                    [
                        html.Tr(
                            [
                                html.Td(cell, className="n" if i in right else "")
                                for i, cell in enumerate(row)
                            ]
                        )
                        for row in rows
                    ]
                ),
            ]
        ),
        className="scroll",
        tabIndex=0,
        role="region",
        **aria(label=caption or "table"),
    )


def chart_table(chart: Chart, *, caption: str, numbers: Sequence[int]) -> Any:
    """The rows behind a chart."""
    head = [column.label for column in chart.columns]
    return table(head, chart.rows, caption=caption, numbers=numbers)


def sparkline(watts: Sequence[float], *, modelled: bool = False) -> Any:
    """Power over a run as a word-sized line; the alternative text has the figures."""
    if len(watts) < 2:
        return ""
    top, width, height = max(*watts, 1e-9), 72.0, 22.0
    across = width / (len(watts) - 1)
    points = " ".join(
        f"{i * across:.1f},{height - 2 - (height - 4) * w / top:.1f}" for i, w in enumerate(watts)
    )
    dash = " stroke-dasharray='4 2'" if modelled else ""
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}'>"
        f"<polyline points='{points}' fill='none' stroke='#2a80b9' stroke-width='1.6'{dash}/>"
        "</svg>"
    )
    text = f"power {'(a model) ' if modelled else ''}from {min(watts):.0f} to {max(watts):.0f} W"
    return html.Img(src="data:image/svg+xml," + quote(svg), alt=text, width=72, height=22)


def with_code(text: str) -> list[Any]:
    """The text with its parts between backticks as code elements."""
    return [html.Code(part) if i % 2 else part for i, part in enumerate(text.split("`"))]
