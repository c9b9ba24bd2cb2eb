"""The table of runs: which rows it has, in which order, page by page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from dash import dcc, html

from probe.store.catalogue import RunSummary
from probe.store.catalogue.search import LONGEST
from probe.store.catalogue.totals import GROUPS, Worth, joules_of

from .. import urls
from ..components import aria
from ..context import AppContext
from ._run_row import each_of, run_row

PER_PAGE = 50

SortKey = tuple[str, float]  # the one or the other


def _by_number(value: float | None) -> SortKey | None:
    return None if value is None else ("", value)


def _phase(row: RunSummary) -> SortKey | None:
    takes = row["hungriest"]
    return None if takes is None else (takes["phase"], takes["share"])


# key → (heading, what it sorts by, classes)
COLUMNS: Mapping[str, tuple[str, Callable[[RunSummary], SortKey | None], str]] = {
    "name": ("run", lambda row: (str(row["name"] or row["id"]).lower(), 0.0), ""),
    "status": ("status", lambda row: (str(row["status"]), 0.0), "roomy"),
    "started": ("begun (UTC)", lambda row: (str(row["started"] or ""), 0.0), "roomy"),
    "duration": ("duration", lambda row: _by_number(row["duration_s"]), "n roomy"),
    "steps": ("steps", lambda row: _by_number(row["steps"]), "n roomy"),
    "energy": ("energy", lambda row: _by_number(joules_of(row)[0]), "n"),
    "phase": ("takes most", _phase, "roomy"),
    "each": ("energy per sample", lambda row: _by_number(each_of(row)[0]), "n roomy"),
}
_UPWARDS_FIRST = ("name", "status", "phase")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: ``?q=tag:sweep&sort=-energy&page=2&by=day&archived=1``.

    ``by`` is a key of :data:`GROUPS`, or "" for no sums.
    """

    text: str = ""
    sort: str = ""
    page: int = 1
    by: str = ""
    archived: bool = False

    @classmethod
    def of(cls, given: object) -> Asked:
        """From an address or from what a browser sent; what cannot be read is left out."""
        asked = given if isinstance(given, Mapping) else {}
        texts = {key: text for key, text in asked.items() if isinstance(text, str)}
        page, sort = texts.get("page", ""), texts.get("sort", "")
        return cls(
            text=texts.get("q", "")[:LONGEST],
            sort=sort if sort.removeprefix("-") in COLUMNS else "",
            page=int(page) if page.isascii() and page.isdecimal() and len(page) < 7 else 1,
            by=texts.get("by", "") if texts.get("by") in GROUPS else "",
            archived=texts.get("archived") == "1",
        )

    def stored(self) -> dict[str, str]:
        """What :meth:`of` reads again."""
        pairs = {
            "q": self.text,
            "sort": self.sort,
            "page": str(self.page) if self.page > 1 else "",
            "by": self.by,
            "archived": "1" if self.archived else "",
        }
        return {key: value for key, value in pairs.items() if value}

    def href(self, context: AppContext, **changes: Any) -> str:
        """The address of the page with some of it changed, the first page of it."""
        asked = replace(self, **{"page": 1} | changes)
        return context.href("/") + urls.query(asked.stored())


def sorted_rows(rows: Sequence[RunSummary], sort: str) -> list[RunSummary]:
    """By a column, ``-`` before it downwards; what has no value comes last either way."""
    key = sort.removeprefix("-")
    if key not in COLUMNS:
        return list(rows)
    keyed = [(COLUMNS[key][1](row), row) for row in rows]
    sortable = [(value, row) for value, row in keyed if value is not None]
    sortable.sort(key=itemgetter(0), reverse=sort.startswith("-"))
    return [row for _, row in sortable] + [row for value, row in keyed if value is None]


def page_of(rows: Sequence[RunSummary], page: int) -> tuple[int, Sequence[RunSummary]]:
    """The number of a page that there is, and its rows."""
    page = min(max(1, page), _last(len(rows)))
    return page, rows[(page - 1) * PER_PAGE : page * PER_PAGE]


def table(
    context: AppContext,
    rows: Sequence[RunSummary],
    asked: Asked,
    worths: Mapping[str, Worth],
    currency: str,
) -> Any:
    """The rows of one page below headings that sort."""
    head = [
        html.Th(html.Span("marked", className="hidden"), scope="col", className="tick-cell"),
        *(_heading(context, key, asked) for key in COLUMNS),
        html.Th("power", scope="col", className="roomy"),
    ]
    body = [
        run_row(context, each, worths.get(each["id"]), currency)
        for row in rows
        for each in (row, *(row.get("trainings") or ()))
    ]
    return html.Div(
        html.Table(
            [html.Caption("Runs", className="hidden"), html.Thead(html.Tr(head)), html.Tbody(body)],
            className="runs",
        ),
        className="scroll",
        tabIndex=0,
        role="region",
        **aria(label="Runs"),
    )


def pages(context: AppContext, asked: Asked, count: int) -> Any:
    """Links to the pages beside this one; nothing where there is only one."""
    last = _last(count)
    if last < 2:
        return ""
    words = ("before", "after") if asked.sort else ("newer", "older")
    links: list[Any] = [f"page {asked.page} of {last}"]
    for target, label in ((asked.page - 1, words[0]), (asked.page + 1, words[1])):
        if 1 <= target <= last:
            links.append(dcc.Link(label, href=asked.href(context, page=target)))
    return html.Nav(links, className="pages", **aria(label="Pages of the table"))


def _heading(context: AppContext, key: str, asked: Asked) -> Any:
    label, _, classes = COLUMNS[key]
    up, down = asked.sort == key, asked.sort == f"-{key}"
    following = f"-{key}" if up or (not down and key not in _UPWARDS_FIRST) else key
    mark = " ▲" if up else " ▼" if down else ""
    link = dcc.Link(label + mark, href=asked.href(context, sort=following))
    order = aria(sort="ascending" if up else "descending") if up or down else {}
    return html.Th(link, scope="col", className=classes, **order)


def _last(count: int) -> int:
    return max(1, -(-count // PER_PAGE))
