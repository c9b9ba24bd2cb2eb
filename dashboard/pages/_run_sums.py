"""What the runs that are shown come to: a line, and a table by day, name, tag or host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from dash import dcc, html

from probe.analysis.run_sums import SUM_HEAD, sum_cells, sum_line
from probe.report.numbers import unbroken
from probe.store.catalogue import RunSummary
from probe.store.catalogue.totals import GROUPS, Worth, total, totals_by

from ..components import aria
from ..components import table as plain_table
from ..context import AppContext
from ._run_table import Asked

_MOST_GROUPS = 30
_OF_BATCH_JOBS = ("job", "account", "user")  # offered where a run belongs to one


def sums(
    context: AppContext,
    rows: Sequence[RunSummary],
    there: Sequence[RunSummary],
    asked: Asked,
    worths: Mapping[str, Worth],
    currency: str,
) -> list[Any]:
    """The line, the choice of groups, and the table of the one that is chosen.

    Args:
        rows: those that are shown, on whatever page.
        there: all runs of the directory.
    """
    parts = sum_line(total(rows, worths), currency)
    if len(rows) < len(there):
        parts[0] = f"{len(rows)} of {len(there)} runs"
    line = html.P(
        [html.Span(unbroken(part)) for part in parts], className="sums", **aria(live="polite")
    )
    links = [
        html.Span(
            dcc.Link(
                group,
                href=asked.href(context, by="" if group == asked.by else group),
                className="on" if group == asked.by else "",
            ),
            **aria(current="true" if group == asked.by else "false"),
        )
        for group in GROUPS
        if group not in _OF_BATCH_JOBS or any(map(itemgetter(group), rows))
    ]
    choice = html.Nav(["totals by", *links], className="spans", **aria(label="Totals by"))
    away = sum(row["archived"] for row in there)
    label = f"without {away} archived" if asked.archived else f"show {away} archived, too"
    archived = dcc.Link(label, href=asked.href(context, archived=not asked.archived))
    return [
        line,
        html.Div([choice, archived if away else ""], className="choices"),
        _by_group(rows, asked, worths, currency) if asked.by else "",
    ]


def _by_group(
    rows: Sequence[RunSummary], asked: Asked, worths: Mapping[str, Worth], currency: str
) -> Any:
    groups = totals_by(rows, asked.by, worths)
    head = [asked.by, *SUM_HEAD]
    body = [
        [key or f"no {asked.by}", *sum_cells(of, currency)]
        for key, of in list(groups.items())[:_MOST_GROUPS]
    ]
    used = [i for i in range(len(head)) if i == 0 or any(cells[i] for cells in body)]
    shown = plain_table(
        [head[i] for i in used],
        [[cells[i] for i in used] for cells in body],
        caption=f"Totals by {asked.by}",
        numbers=range(1, len(used)),
    )
    more = len(groups) - _MOST_GROUPS
    rest = html.P(f"and {more} more; `probe ls --by {asked.by}` has all", className="soft")
    return html.Div([shown, rest if more > 0 else ""], className="by-group")
