"""The rows behind each chart, a page with a table and CSV; a page as one file to send."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from flask import Blueprint, Response, request

from probe.errors import ProbeError, UsageError

from .access import refusal
from .chart_data import Cell
from .context import AppContext, app_context
from .page import ChartTable, FindTable, MakeStill, Query
from .pages import pages
from .snapshot.still import document
from .urls import CSV, MEMBER, SNAPSHOT, TABLE, run

_OPEN = "origin"  # of the query ``with``: command, paths, host, user and configuration, too
_MAX_ROWS = 5000  # of a page; the CSV has all


def downloads() -> Blueprint:
    """Routes below the base path."""
    routes = Blueprint("downloads", __name__)
    for page in pages().values():
        for rule, find in page.tables.items():
            _add(routes, TABLE + rule, find, _page)
            _add(routes, CSV + rule, find, _csv)
        for rule, make in page.stills.items():
            _add_still(routes, SNAPSHOT + rule, make)
    return routes


def _add(
    routes: Blueprint, rule: str, find: FindTable, render: Callable[[ChartTable], Response]
) -> None:
    def answer(**parts: str) -> Response:
        try:
            return render(find(app_context(), **parts))
        except (ProbeError, OSError) as error:
            return refusal(404, str(error))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return refusal(404, f"this cannot be shown: {type(error).__name__}")

    routes.add_url_rule(rule, re.sub(r"\W+", "-", rule).strip("-"), answer)


def _add_still(routes: Blueprint, rule: str, make: MakeStill) -> None:
    def answer(**parts: str) -> Response:
        asked: Query = {key: request.args.getlist(key) for key in request.args}
        try:
            still = make(app_context(), parts, asked, _OPEN in asked.get("with", ()))
            content = document(still)
        except (ProbeError, OSError) as error:
            return refusal(404, str(error))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return refusal(404, f"there is no snapshot of this: {type(error).__name__}")
        file = re.sub(r"[^A-Za-z0-9._-]+", "-", still.name)[:120]
        return Response(
            content,
            mimetype="text/html",
            headers={"Content-Disposition": f'attachment; filename="{file}.html"'},
        )

    routes.add_url_rule(rule, re.sub(r"\W+", "-", rule).strip("-"), answer)


def snapshot_of(context: AppContext, references: list[str], *, is_open: bool) -> bytes:
    """The file of a run, or of a comparison of the first of several with each other.

    Args:
        references: the id of a run in the context's directory, or two or more references of
            ``probe compare``.
        is_open: with command, paths, host, user and configuration.

    Raises:
        ProbeError: a run is not there or cannot be read.
    """
    stills = {rule: make for page in pages().values() for rule, make in page.stills.items()}
    parts: Mapping[str, str] = {}
    if len(references) == 1:
        rule, asked = "run/<run_id>", {}
        parts = {"run_id": references[0].replace("/", MEMBER)}
    else:
        rule, asked = "gains", {"base": references[:1], "other": references[1:]}
    try:
        return document(stills[rule](context, parts, asked, is_open))
    except ValueError as error:
        raise UsageError(f"no snapshot of {', '.join(references)}: {error}") from None


def _csv(table: ChartTable) -> Response:
    chart = table.chart
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in chart.columns])
    writer.writerows(_harmless(row) for row in chart.rows)
    file = re.sub(r"[^A-Za-z0-9._-]+", "-", table.file_name)[:120]
    return Response(
        text.getvalue(),
        mimetype="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{file}.csv"'},
    )


def _harmless(row: Sequence[Cell]) -> Iterable[Cell]:
    """Quote cells that a spreadsheet would take for formulas (CSV injection, OWASP)."""
    return (
        f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" else cell for cell in row
    )


def _page(table: ChartTable) -> Response:
    title, chart = table.title, table.chart
    head = "".join(f"<th scope='col'>{escape(column.label)}</th>" for column in chart.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in chart.rows[:_MAX_ROWS]
    )
    more = len(chart.rows) - _MAX_ROWS
    note = f"<p class='soft'>{more} more rows are in the CSV.</p>" if more > 0 else ""
    csv_path = request.full_path.replace(TABLE, CSV, 1).rstrip("?")
    base = app_context().href("/assets/")
    return Response(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)} · phasewatt</title>"
        f"<link rel='stylesheet' href='{base}style.css'><script src='{base}theme.js'></script>"
        f"</head><body><main id='main' class='wide'>{_way_back()}<h1>{escape(title)}</h1>"
        f"<p>{escape(chart.caption)}</p>"
        f"<p><a href='{escape(csv_path)}' download>CSV</a></p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Table'><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}</main></body>"
        "</html>",
        mimetype="text/html",
    )


def _way_back() -> str:
    """Links to the runs, and to the run that the table is of."""
    run_id = (request.view_args or {}).get("run_id")
    ways = [("/", "Runs")] + ([(run(run_id), "this run")] if run_id else [])
    links = (f"<a href='{escape(app_context().href(path))}'>{text}</a>" for path, text in ways)
    return f"<nav class='pages' aria-label='Pages'>{' '.join(links)}</nav>"


def _cell(cell: Cell) -> str:
    """Four digits: the CSV has all."""
    if cell is None:
        return "<td class='n'>—</td>"
    if isinstance(cell, float):
        digits = ".0f" if 1e4 <= abs(cell) < 1e15 else ".4g"
        return f"<td class='n'>{cell:{digits}}</td>"
    kind = " class='n'" if isinstance(cell, int) and not isinstance(cell, bool) else ""
    text = ("yes" if cell else "") if isinstance(cell, bool) else str(cell)
    return f"<td{kind}>{escape(text)}</td>"
