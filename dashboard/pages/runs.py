"""All runs of the directory: searched as one types, added up, marked to be compared."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from probe.analysis.run_sums import currency_of, worths
from probe.store.catalogue import RunSummary
from probe.store.catalogue.search import LONGEST, matching

from .. import urls
from ..components import DAMAGED, aria, as_one_file, data, notice, shell
from ..context import AppContext, app_context
from ..page import Address, Page, Query
from ..snapshot.hidden import hidden_of
from ..snapshot.still import Still
from ._run_sums import sums
from ._run_table import Asked, page_of, pages, sorted_rows, table

_TICK_MS = 2000
_TYPING_S = 0.15  # without a key until the server is asked
_RUNS, _SUMS, _TICK, _SEARCH = "runs-table", "runs-sums", "runs-tick", "runs-search"  # ids
_FILTER, _HELP, _TAG = "runs-filter", "runs-help", "runs-tag"
_ASKED, _SEEN = "runs-asked", "runs-seen"  # of stores


def _layout(context: AppContext, address: Address) -> Any:
    """The page for what :class:`Asked` reads from the address."""
    asked = Asked.of(address)
    head, body, asked, stamp = _content(context, asked)
    return shell(
        html.Div(_search(asked), id=_FILTER, hidden=not head, role="search"),
        dcc.Store(id=_ASKED, data=asked.stored()),
        dcc.Store(id=_SEEN, data=stamp),
        html.Div(head, id=_SUMS),
        _marked(),
        html.Div(body, id=_RUNS),
        dcc.Interval(id=_TICK, interval=_TICK_MS),
        title="Runs",
        wide=True,
    )


def _search(asked: Asked) -> Any:
    return html.Div(
        [
            html.Div(
                [
                    html.Label("Search", htmlFor=_SEARCH),
                    dcc.Input(
                        id=_SEARCH,
                        value=asked.text,
                        debounce=_TYPING_S,
                        type="text",
                        maxLength=LONGEST,
                        autoComplete="off",
                        placeholder="name, tag, note, config, status, host, date",
                    ),
                ],
                className="search",
            ),
            html.Details(
                [
                    html.Summary("how to search"),
                    html.P(
                        [
                            "Runs have all words. Only there: ",
                            *_codes("tag:sweep", "host:node3", "status:failed", "config:lr=0.1"),
                            "name: note: phase: id:. Days: ",
                            *_codes("date:2026-11", "from:2026-11-01", "to:2026-11-07"),
                            "Without: ",
                            *_codes("-tag:old", "-debug"),
                            "As one: ",
                            *_codes('"two words"'),
                        ]
                    ),
                ],
                id=_HELP,
            ),
        ],
        className="filter",
    )


def _codes(*words: str) -> list[Any]:
    return [part for word in words for part in (html.Code(word), " ")]


def _marked() -> Any:
    """What is done with the runs that are marked; ``labels.js`` shows it and acts."""
    actions: list[Any] = [
        html.Strong("", className="marked-count", role="status"),
        html.Button("Compare", type="button", className="main", **data(do="compare")),
        html.Span(
            [
                html.Label("tag", htmlFor=_TAG, className="hidden"),
                dcc.Input(
                    id=_TAG, type="text", maxLength=40, placeholder="tag", autoComplete="off"
                ),
                html.Button("Add tag", type="button", **data(do="tag")),
                html.Button("Remove tag", type="button", **data(do="untag")),
            ],
            className="together",
        ),
        html.Button("Archive", type="button", **data(do="archive")),
        html.Button("Bring back", type="button", **data(do="unarchive")),
        html.Button("clear", type="button", className="link", **data(do="clear")),
        html.Span("", className="said", role="alert"),
    ]
    return html.Div(actions, className="marked", hidden=True, role="region", **aria(label="Marked"))


def _callbacks(app: Dash) -> None:
    """The table follows the directory and what is typed; the address follows the table."""

    @app.callback(
        Output(_RUNS, "children"),
        Output(_SUMS, "children"),
        Output(_FILTER, "hidden"),
        Output(_ASKED, "data"),
        Output(_SEEN, "data"),
        Input(_TICK, "n_intervals"),
        Input(_SEARCH, "value"),
        State(_ASKED, "data"),
        State(_SEEN, "data"),
        prevent_initial_call=True,
    )
    def follow(_: Any, text: Any, before: Any, seen: Any) -> Any:
        asked = Asked.of(before)
        given = {"q": text if isinstance(text, str) else ""}
        now = replace(asked, text=Asked.of(given).text)
        if now != asked:
            now = replace(now, page=1)
        head, body, now, stamp = _content(app_context(), now)
        if stamp == seen:
            return (no_update,) * 5
        return body, head, not head, now.stored(), stamp

    app.clientside_callback(
        ClientsideFunction("labels", "address"),
        Output(_HELP, "title"),
        Input(_ASKED, "data"),
        prevent_initial_call=True,
    )


# (sums, table, what it shows, a text that changes with it)
_Content = tuple[list[Any], list[Any], Asked, str]


def _content(context: AppContext, asked: Asked) -> _Content:
    """Made once for all tabs that ask for the same, until the directory was read again."""
    times_read, rows = context.library.numbered_rows()
    return context.library.cache.get(
        ("runs", asked), times_read, lambda: _new_content(context, rows, asked)
    )


def _new_content(context: AppContext, rows: list[RunSummary], asked: Asked) -> _Content:
    if not rows:
        return [], [_empty(context)], asked, ""
    shown = sorted_rows(matching(rows, asked.text, archived=asked.archived), asked.sort)
    page, part = page_of(shown, asked.page)
    asked = replace(asked, page=page)
    context.library.look_into(part)
    tariffs = context.tariffs
    worth, currency = worths(shown, tariffs), currency_of(tariffs)
    head = sums(context, shown, rows, asked, worth, currency)
    stamp = hashlib.sha256(repr((asked, head, part)).encode()).hexdigest()
    if not shown:
        return head, [_nothing_found(rows, asked)], asked, stamp
    body = [
        table(context, part, asked, worth, currency),
        pages(context, asked, len(shown)),
        as_one_file(context.href(urls.snapshot("runs", asked=asked.stored()))),
    ]
    return head, body, asked, stamp


def _still(context: AppContext, _parts: Mapping[str, str], asked: Query, is_open: bool) -> Still:
    """The sums, and the page of the table that the query asks for, as one file."""
    of = Asked.of({key: values[0] for key, values in asked.items() if values})
    rows = context.library.rows()
    shown = sorted_rows(matching(rows, of.text, archived=of.archived), of.sort)
    _, part = page_of(shown, of.page)
    tariffs = context.tariffs
    worth, currency = worths(shown, tariffs), currency_of(tariffs)
    line, _choice, by_group = sums(context, shown, rows, of, worth, currency)
    body: list[Any] = [html.H1("Runs"), line, by_group]
    if shown:
        body.append(table(context, part, of, worth, currency))
    if len(part) < len(shown):
        body.append(html.P(f"{len(part)} of {len(shown)} runs are in this file.", className="soft"))
    runs = []
    for row in part:
        with contextlib.suppress(*DAMAGED):  # of one that cannot be read nothing but that is shown
            run = context.library.open(row["id"])
            run.origin()
            runs.append(run)
    hosts = [str(row["host"] or "") for row in rows]
    return Still(
        "Runs", "phasewatt-runs", html.Main(body, className="wide"), hidden_of(runs, is_open, hosts)
    )


def _nothing_found(rows: list[Any], asked: Asked) -> Any:
    away = sum(row["archived"] for row in rows)
    if not asked.text:
        return notice("All runs here are archived: the link above shows them.")
    more = f" {away} are archived and were not looked at." if away and not asked.archived else ""
    return notice(f"No run has all of that.{more}")


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


def _prefetch(context: AppContext, _: str) -> None:
    """Read the directory, which takes a while where it holds very many runs."""
    _content(context, Asked())


PAGE = Page(
    path="/",
    title="Runs · phasewatt",
    layout=_layout,
    callbacks=_callbacks,
    navigation=(1, "Runs"),
    stills={"runs": _still},
    opens_with_charts=False,
    prefetch=_prefetch,
)
