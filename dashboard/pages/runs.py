"""All runs of the directory, those that go on first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from dash import Dash, Input, Output, State, dcc, html, no_update

from probe.report.numbers import duration, energy, number

from .. import ids, urls
from ..components import aria, badge, notice, shell, sparkline
from ..context import Desk, desk

TITLE = "Runs"
PER_PAGE = 100
_EVERY_MS = 2000
_FILTER = "runs-filter"

Row = Mapping[str, Any]
# key → (heading, what it sorts by)
_COLUMNS: Mapping[str, tuple[str, Callable[[Row], Any]]] = {
    "name": ("run", lambda row: str(row["name"] or row["id"]).lower()),
    "status": ("status", lambda row: str(row["status"])),
    "started": ("begun (UTC)", lambda row: str(row["started"] or "")),
    "duration": ("duration", lambda row: row["duration_s"]),
    "steps": ("steps", lambda row: row["steps"]),
    "energy": ("energy", lambda row: _joules(row)[0]),
    "each": ("energy per sample", lambda row: _each(row)[0]),
}


def layout(sort: str = "", q: str = "", page: str = "1", **_: Any) -> Any:
    """The page for ``?sort=-energy&q=resnet&page=2``."""
    asked = {
        "sort": sort if isinstance(sort, str) else "",
        "q": q if isinstance(q, str) else "",
        "page": page if isinstance(page, str) else "1",
    }
    return shell(
        html.Div(
            [
                html.Label("Show runs whose name has", htmlFor=_FILTER),
                dcc.Input(id=_FILTER, value=asked["q"], debounce=True, type="text", maxLength=100),
            ],
            className="filter",
        ),
        dcc.Store(id="runs-asked", data=asked),
        dcc.Store(id="runs-seen"),
        html.Div(_table(desk(), asked)[0], id=ids.RUNS),
        dcc.Interval(id=ids.RUNS_TICK, interval=_EVERY_MS),
        title=TITLE,
        wide=True,
    )


def register(app: Dash) -> None:
    """The table follows the directory; the filter is part of the address."""

    @app.callback(
        Output(ids.RUNS, "children"),
        Output("runs-seen", "data"),
        Input(ids.RUNS_TICK, "n_intervals"),
        State("runs-asked", "data"),
        State("runs-seen", "data"),
        prevent_initial_call=True,
    )
    def follow(_: Any, asked: Any, seen: Any) -> Any:
        made, stamp = _table(desk(), asked if isinstance(asked, dict) else {})
        return (no_update, no_update) if stamp == seen else (made, stamp)

    @app.callback(
        Output(ids.URL, "search"),
        Input(_FILTER, "value"),
        State("runs-asked", "data"),
        prevent_initial_call=True,
    )
    def filtered(text: Any, asked: Any) -> Any:
        asked = asked if isinstance(asked, dict) else {}
        wanted = str(text or "")[:100]
        if wanted == asked.get("q", ""):
            return no_update
        return _query(str(asked.get("sort", "")), wanted, 1)


def _table(of: Desk, asked: Mapping[str, Any]) -> tuple[Any, str]:
    rows: Sequence[Row] = of.library.rows()
    if not rows:
        return _empty(of), "empty"
    wanted = str(asked.get("q", "")).strip().lower()
    shown = [row for row in rows if wanted in f"{row['name']} {row['id']} {row['status']}".lower()]
    sort = str(asked.get("sort", ""))
    shown = _sorted(shown, sort)
    page = _page(asked.get("page"), len(shown))
    part = shown[(page - 1) * PER_PAGE : page * PER_PAGE]
    stamp = repr((sort, wanted, page, len(shown), part))
    told = f"{len(shown)} of {len(rows)} runs" if wanted else f"{len(rows)} runs"
    body: list[Any] = [html.P([told, f" in {of.directory}"], className="soft")]
    if not shown:
        body.append(notice("No run has that in its name, id or status."))
        return body, stamp
    head = html.Tr(
        [
            *(_heading(of, key, label, sort, wanted) for key, (label, _) in _COLUMNS.items()),
            html.Th("power", scope="col"),
        ]
    )
    body.append(
        html.Div(
            html.Table(
                [
                    html.Caption("Runs", className="hidden"),
                    html.Thead(head),
                    html.Tbody([_row(of, row) for row in part]),
                ],
                className="runs",
            ),
            className="scroll",
            tabIndex=0,
            role="region",
            **aria(label="Runs"),
        )
    )
    if len(shown) > PER_PAGE:
        body.append(_pages(of, sort, wanted, page, len(shown)))
    return body, stamp


def _sorted(rows: Sequence[Row], sort: str) -> list[Row]:
    """By a column, ``-`` before it downwards; what has no value comes last either way."""
    key = sort.removeprefix("-")
    if key not in _COLUMNS:
        return list(rows)
    value = _COLUMNS[key][1]
    known = [row for row in rows if value(row) is not None]
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + [row for row in rows if value(row) is None]


def _heading(of: Desk, key: str, label: str, sort: str, wanted: str) -> Any:
    up, down = sort == key, sort == f"-{key}"
    following = f"-{key}" if up or (not down and key not in ("name", "status")) else key
    mark = " ▲" if up else " ▼" if down else ""
    link = dcc.Link(label + mark, href=of.href("/") + _query(following, wanted, 1))
    order = aria(sort="ascending" if up else "descending") if up or down else {}
    return html.Th(
        link, scope="col", className="" if key in ("name", "status", "started") else "n", **order
    )


def _row(of: Desk, row: Row) -> Any:
    name = str(row["name"] or row["id"])
    if row["problem"]:
        cells = [
            html.Td([_link(of, row, name), html.Small(str(row["id"]))]),
            html.Td(badge("unreadable")),
            html.Td(str(row["problem"])[:200], colSpan=len(_COLUMNS) - 1),
        ]
        return html.Tr(cells, className="bad")
    joules, model = _joules(row)
    each, unit = _each(row)
    power = row.get("power") or {}
    live = row["status"] == "running"
    watts = row.get("power_w")
    return html.Tr(
        [
            html.Td([_link(of, row, name), html.Small(str(row["id"]))]),
            html.Td(badge(str(row["status"]))),
            html.Td(_begun(row["started"])),
            html.Td(
                "" if row["duration_s"] is None else duration(row["duration_s"]), className="n"
            ),
            html.Td("" if row["steps"] is None else str(row["steps"]), className="n"),
            html.Td(
                [energy(joules), html.Small("a model's") if model and joules is not None else ""],
                className="n modelled" if model else "n",
            ),
            html.Td(
                "" if each is None else [energy(each), html.Small(unit)],
                className="n modelled" if model else "n",
            ),
            html.Td(
                f"{number(watts)} W now"
                if live and watts is not None
                else sparkline(
                    power.get("power_w") or [], modelled=power.get("provenance") == "modelled"
                )
            ),
        ],
        className="live" if live else "",
    )


def _link(of: Desk, row: Row, name: str) -> Any:
    return dcc.Link(name, href=of.href(urls.run(str(row["id"]))), className="name")


def _joules(row: Row) -> tuple[float | None, bool]:
    """(J, whether a model's)."""
    if row["energy_j"] is not None:
        return row["energy_j"], False
    return row["modelled_energy_j"], True


def _each(row: Row) -> tuple[float | None, str]:
    joules, _ = _joules(row)
    for key, unit in (("samples", "per sample"), ("tokens", "per token")):
        if joules is not None and row.get(key):
            return joules / row[key], unit
    return None, ""


def _begun(text: Any) -> str:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""


def _page(asked: Any, count: int) -> int:
    number_ = int(asked) if isinstance(asked, str) and asked.isdecimal() and len(asked) < 7 else 1
    return min(max(1, number_), max(1, -(-count // PER_PAGE)))


def _pages(of: Desk, sort: str, wanted: str, page: int, count: int) -> Any:
    last = -(-count // PER_PAGE)
    links: list[Any] = [f"page {page} of {last}"]
    for target, label in ((page - 1, "newer"), (page + 1, "older")):
        if 1 <= target <= last:
            links.append(
                dcc.Link(
                    label if not sort else ("before", "after")[target > page],
                    href=of.href("/") + _query(sort, wanted, target),
                )
            )
    return html.Nav(links, className="pages", **aria(label="Pages of the table"))


def _query(sort: str, wanted: str, page: int) -> str:
    pairs = {"sort": sort, "q": wanted, "page": str(page) if page > 1 else ""}
    text = urlencode({key: value for key, value in pairs.items() if value})
    return f"?{text}" if text else ""


def _empty(of: Desk) -> Any:
    return html.Div(
        [
            html.H2("No run yet"),
            html.P(
                [
                    "Nothing was recorded in ",
                    html.Code(str(of.directory)),
                    ". Watch a training without touching it:",
                ]
            ),
            html.Pre("probe run -- python train.py"),
            html.P("or from inside it:"),
            html.Pre(
                'import probe\n\nwith probe.watch(model, optimizer, name="first") as run:\n    ...'
            ),
            html.P("It appears here as soon as it begins."),
        ],
        className="empty",
    )
