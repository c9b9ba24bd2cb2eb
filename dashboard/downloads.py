"""The figures behind each chart: a page with a table, and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from flask import Blueprint, Response, request

from probe.errors import ProbeError

from .chart_data import Chart
from .context import desk
from .figures.gains import by_technique
from .pages.gains import charts
from .run_charts import TABLES, drawn
from .urls import CSV, TABLE, State

_MOST_ROWS = 5000  # of a page; the CSV has all
_Found = tuple[str, str, Chart]  # title, file name, chart


def downloads() -> Blueprint:
    """Routes below the base path."""
    routes = Blueprint("downloads", __name__)
    for kind, render in ((TABLE, _page), (CSV, _csv)):
        _add(routes, kind, "run/<run_id>/<view>", _of_run, render)
        _add(routes, kind, "gains/<view>", _of_gains, render)
        _add(routes, kind, "ablation/<folder>", _of_ablation, render)
    return routes


def _add(
    routes: Blueprint,
    kind: str,
    rule: str,
    find: Callable[..., _Found],
    render: Callable[[_Found], Response],
) -> None:
    def answer(**given: str) -> Response:
        try:
            return render(find(**given))
        except (ProbeError, OSError) as error:
            return _refused(str(error))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return _refused(f"this cannot be shown: {type(error).__name__}")

    name = re.sub(r"\W+", "-", kind + rule).strip("-")
    routes.add_url_rule(kind + rule, name, answer)


def _of_run(run_id: str, view: str) -> _Found:
    if view not in TABLES:
        raise KeyError(view)
    state = State.of(request.args.get("t"), request.args.get("d"))
    run = desk().library.open(run_id)
    return TABLES[view].title, f"{run_id}-{view}", drawn(run, view, state)


def _of_gains(view: str) -> _Found:
    asked = request.args
    found = desk().comparisons.compare(
        asked.get("base", ""), asked.getlist("other"), asked.get("target")
    )
    title, chart = charts(found)[view]
    return title, f"gains-{view}", chart


def _of_ablation(folder: str) -> _Found:
    for found in desk().comparisons.ablations():
        if found["folder"] == folder:
            return f"Ablation in {folder}", f"ablation-{folder}", by_technique(found)
    raise KeyError(folder)


def _refused(why: str) -> Response:
    return Response(f"{why}\n", 404, mimetype="text/plain")


def _csv(found: _Found) -> Response:
    _, name, chart = found
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in chart.columns])
    writer.writerows(_harmless(row) for row in chart.rows)
    file = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:120]
    return Response(
        text.getvalue(),
        mimetype="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{file}.csv"'},
    )


def _harmless(row: Sequence[Any]) -> Iterable[Any]:
    """A name that begins like a formula is one to a spreadsheet (CSV injection, OWASP)."""
    return (
        f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" else cell for cell in row
    )


def _page(found: _Found) -> Response:
    title, _, chart = found
    head = "".join(f"<th scope='col'>{escape(column.label)}</th>" for column in chart.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in chart.rows[:_MOST_ROWS]
    )
    more = len(chart.rows) - _MOST_ROWS
    note = f"<p class='soft'>{more} more rows are in the CSV.</p>" if more > 0 else ""
    csv_path = request.full_path.replace(TABLE, CSV, 1).rstrip("?")
    base = desk().href("/assets/")
    return Response(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)} · phasewatt</title>"
        f"<link rel='stylesheet' href='{base}style.css'><script src='{base}theme.js'></script>"
        f"</head><body><main id='main'><h1>{escape(title)}</h1><p>{escape(chart.caption)}</p>"
        f"<p><a href='{escape(csv_path)}' download>CSV</a></p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Table'><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}</main></body>"
        "</html>",
        mimetype="text/html",
    )


def _cell(cell: Any) -> str:
    if cell is None:
        return "<td class='n'>—</td>"
    if isinstance(cell, float):
        return f"<td class='n'>{cell:.6g}</td>"
    kind = " class='n'" if isinstance(cell, int) and not isinstance(cell, bool) else ""
    told = ("yes" if cell else "") if isinstance(cell, bool) else str(cell)
    return f"<td{kind}>{escape(told)}</td>"
