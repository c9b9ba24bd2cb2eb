"""All runs of the directory, live runs first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from probe.store.catalogue import RunSummary

from .. import urls
from ..components import aria, notice, shell
from ..context import AppContext, app_context
from ..page import URL_ID, Address, Page
from ._run_row import each_of, joules_of, run_row

_PER_PAGE = 100
_TICK_MS = 2000
_RUNS, _TICK, _FILTER = "runs-table", "runs-tick", "runs-filter"  # ids
_ASKED, _SEEN = "runs-asked", "runs-seen"  # of stores

SortKey = tuple[str, float]  # the one or the other
# key → (heading, what it sorts by)
_COLUMNS: Mapping[str, tuple[str, Callable[[RunSummary], SortKey | None]]] = {
    "name": ("run", lambda row: (str(row["name"] or row["id"]).lower(), 0.0)),
    "status": ("status", lambda row: (str(row["status"]), 0.0)),
    "started": ("begun (UTC)", lambda row: (str(row["started"] or ""), 0.0)),
    "duration": ("duration", lambda row: _by_number(row["duration_s"])),
    "steps": ("steps", lambda row: _by_number(row["steps"])),
    "energy": ("energy", lambda row: _by_number(joules_of(row)[0])),
    "each": ("energy per sample", lambda row: _by_number(each_of(row)[0])),
}


def _layout(context: AppContext, address: Address) -> Any:
    """The page for ``?sort=-energy&q=resnet&page=2``."""
    asked = {"sort": "", "q": "", "page": "1"}
    asked |= {key: text for key in asked if isinstance(text := address.get(key), str)}
    return shell(
        html.Div(
            [
                html.Label("Show runs whose name has", htmlFor=_FILTER),
                dcc.Input(id=_FILTER, value=asked["q"], debounce=True, type="text", maxLength=100),
            ],
            className="filter",
        ),
        dcc.Store(id=_ASKED, data=asked),
        dcc.Store(id=_SEEN),
        html.Div(_table(context, asked)[0], id=_RUNS),
        dcc.Interval(id=_TICK, interval=_TICK_MS),
        title="Runs",
        wide=True,
    )


def _callbacks(app: Dash) -> None:
    """The table follows the directory; the filter is part of the address."""

    @app.callback(
        Output(_RUNS, "children"),
        Output(_SEEN, "data"),
        Input(_TICK, "n_intervals"),
        State(_ASKED, "data"),
        State(_SEEN, "data"),
        prevent_initial_call=True,
    )
    def follow(_: Any, asked: Any, seen: Any) -> Any:
        body, stamp = _table(app_context(), asked if isinstance(asked, dict) else {})
        return (no_update, no_update) if stamp == seen else (body, stamp)

    @app.callback(
        Output(URL_ID, "search"),
        Input(_FILTER, "value"),
        State(_ASKED, "data"),
        prevent_initial_call=True,
    )
    def filtered(text: Any, asked: Any) -> Any:
        asked = asked if isinstance(asked, dict) else {}
        wanted = str(text or "")[:100]
        if wanted == asked.get("q", ""):
            return no_update
        return _query(str(asked.get("sort", "")), wanted, 1)


def _table(context: AppContext, asked: Mapping[str, Any]) -> tuple[Any, str]:
    rows = context.library.rows()
    if not rows:
        return _empty(context), "empty"
    wanted = str(asked.get("q", "")).strip().lower()
    shown = [row for row in rows if any(wanted in _words(each) for each in _with_trainings(row))]
    sort = str(asked.get("sort", ""))
    shown = _sorted(shown, sort)
    page = _page_number(asked.get("page"), len(shown))
    part = shown[(page - 1) * _PER_PAGE : page * _PER_PAGE]
    stamp = repr((sort, wanted, page, len(shown), part))
    count = f"{len(shown)} of {len(rows)} runs" if wanted else f"{len(rows)} runs"
    body: list[Any] = [html.P([count, f" in {context.directory}"], className="soft")]
    if not shown:
        return [*body, notice("No run has that in its name, id or status.")], stamp
    head = html.Tr(
        [
            *(_heading(context, key, label, sort, wanted) for key, (label, _) in _COLUMNS.items()),
            html.Th("power", scope="col"),
        ]
    )
    body.append(
        html.Div(
            html.Table(
                [
                    html.Caption("Runs", className="hidden"),
                    html.Thead(head),
                    html.Tbody(
                        [run_row(context, each) for row in part for each in _with_trainings(row)]
                    ),
                ],
                className="runs",
            ),
            className="scroll",
            tabIndex=0,
            role="region",
            **aria(label="Runs"),
        )
    )
    if len(shown) > _PER_PAGE:
        body.append(_pages(context, sort, wanted, page, len(shown)))
    return body, stamp


def _with_trainings(row: RunSummary) -> list[RunSummary]:
    """A row of the table; a group's is followed by those of its trainings."""
    return [row, *(row.get("trainings") or ())]


def _words(row: RunSummary) -> str:
    return f"{row['name']} {row['id']} {row['status']}".lower()


def _sorted(rows: Sequence[RunSummary], sort: str) -> list[RunSummary]:
    """By a column, ``-`` before it downwards; what has no value comes last either way."""
    key = sort.removeprefix("-")
    if key not in _COLUMNS:
        return list(rows)
    keyed = [(_COLUMNS[key][1](row), row) for row in rows]
    sortable = [(value, row) for value, row in keyed if value is not None]
    sortable.sort(key=itemgetter(0), reverse=sort.startswith("-"))
    return [row for _, row in sortable] + [row for value, row in keyed if value is None]


def _by_number(value: float | None) -> SortKey | None:
    return None if value is None else ("", value)


def _heading(context: AppContext, key: str, label: str, sort: str, wanted: str) -> Any:
    up, down = sort == key, sort == f"-{key}"
    following = f"-{key}" if up or (not down and key not in ("name", "status")) else key
    mark = " ▲" if up else " ▼" if down else ""
    link = dcc.Link(label + mark, href=context.href("/") + _query(following, wanted, 1))
    order = aria(sort="ascending" if up else "descending") if up or down else {}
    return html.Th(
        link, scope="col", className="" if key in ("name", "status", "started") else "n", **order
    )


def _page_number(asked: Any, count: int) -> int:
    page = int(asked) if isinstance(asked, str) and asked.isdecimal() and len(asked) < 7 else 1
    return min(max(1, page), max(1, -(-count // _PER_PAGE)))


def _pages(context: AppContext, sort: str, wanted: str, page: int, count: int) -> Any:
    last = -(-count // _PER_PAGE)
    links: list[Any] = [f"page {page} of {last}"]
    for target, label in ((page - 1, "newer"), (page + 1, "older")):
        if 1 <= target <= last:
            links.append(
                dcc.Link(
                    label if not sort else ("before", "after")[target > page],
                    href=context.href("/") + _query(sort, wanted, target),
                )
            )
    return html.Nav(links, className="pages", **aria(label="Pages of the table"))


def _query(sort: str, wanted: str, page: int) -> str:
    pairs = {"sort": sort, "q": wanted, "page": str(page) if page > 1 else ""}
    return urls.query({key: value for key, value in pairs.items() if value})


def _empty(context: AppContext) -> Any:
    return html.Div(
        [
            html.H2("No run yet"),
            html.P(
                [
                    "Nothing was recorded in ",
                    html.Code(str(context.directory)),
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


PAGE = Page(
    path="/", title="Runs · phasewatt", layout=_layout, callbacks=_callbacks, navigation=(1, "Runs")
)
