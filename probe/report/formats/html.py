"""The report as one HTML file: no script, no network, dark and light."""

from __future__ import annotations

import html
from typing import Any

from .. import rank_tables, sentences
from ..model import PhaseRow, Report
from ..numbers import duration, energy
from ..svg_charts import charts
from ..text_tables import Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #5a5a5a; --line: #d8d8d8; --card: #fff;
  --ground: #f6f6f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #a9a9a9; --line: #3c3c3c;
  --card: #1e1e1e; --ground: #141414; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { max-width: 46rem; } h2, h3, p { overflow-wrap: anywhere; } h3 { font-size: 1rem; }
.soft { color: var(--soft); } code { overflow-wrap: anywhere; }
.figure { font-size: 2rem; font-weight: 600; margin: .6rem 0 0; }
figure { margin: 1rem 0; padding: .8rem; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; overflow-x: auto; }
figure svg { width: 100%; height: auto; } figcaption { color: #5a5a5a; font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; background: var(--card);
  font-variant-numeric: tabular-nums; width: 100%; font-size: .92rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } td:first-child, th:first-child, td.text, th.text {
  text-align: left; overflow-wrap: anywhere; }
.plain th { white-space: nowrap; }
.modelled { font-style: italic; color: var(--soft); } .refused { color: var(--soft); }
ul.warnings { padding: .7rem 1rem .7rem 2rem; border-left: 4px solid #E69F00;
  background: var(--card); overflow-wrap: anywhere; }
"""


def render(report: Report) -> str:
    """A whole page.

    Raises:
        UsageError: matplotlib, which draws the charts, is not installed.
    """
    run, name = report.run, escaped(report.run.name or report.run.id)
    steps = f", {sentences.steps(run)}" if run.steps else ""
    ended = f" ({escaped(run.ended_by)})" if run.ended_by else ""
    body = [
        f"<header><h1>{name}</h1>",
        f"<p class='soft'>{escaped(run.status)}{ended} after {duration(run.duration_s)}"
        f"{steps}, begun {escaped(run.started[:19])} UTC · "
        f"<code>{escaped(run.id)}</code></p>",
        f"<p class='figure'>{escaped(sentences.headline(report))}</p>",
        _beside(report),
        "</header>",
        _warnings(report),
    ]
    for chart in charts(report):
        body.append(
            f"<h2>{chart.title}</h2>"
            f"<figure role='img' aria-label='{escaped(chart.caption)}'>{chart.svg}"
            f"<figcaption>{escaped(chart.caption)}</figcaption></figure>"
        )
    body.append("<h2>Phases</h2>")
    body += map(table_of, rank_tables.all_ranks(report))
    body += [
        _phases(report, device) for device in dict.fromkeys(row.device for row in report.phases)
    ]
    body += map(table_of, rank_tables.tables(report))
    body += [
        "<h2>What was measured</h2>",
        _pairs(sentences.provenance(report)),
        "<h2>How well</h2>",
        _pairs(sentences.quality(report)),
        "<h2>Where</h2>",
        _pairs(sentences.machine(report)),
        f"<h2>Method and limits</h2><p>{sentences.METHOD}</p><p>{sentences.LIMITS}</p>",
    ]
    return page(name, "".join(body))


def page(title: str, body: str) -> str:
    """A page of ours; both are HTML already."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title} · phasewatt</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>"
    )


def escaped(value: object) -> str:
    """As text of a page or of an attribute."""
    return html.escape(str(value), quote=True)


def _beside(report: Report) -> str:
    total = report.total
    lines = []
    if total.modelled_energy_j is not None:
        lines.append(
            f"<span class='modelled'>and {energy(total.modelled_energy_j)} of CPU and "
            "RAM by a model, not in it</span>"
        )
    lines += map(escaped, sentences.tariffs(report))
    return f"<p class='soft'>{' · '.join(lines)}</p>" if lines else ""


def _warnings(report: Report) -> str:
    lines = "".join(f"<li>{escaped(line)}</li>" for line in report.warnings)
    return f"<ul class='warnings'>{lines}</ul>" if lines else ""


def _phases(report: Report, device: str) -> str:
    *numbers, how = sentences.COLUMNS[1:]
    head = "".join(f"<th>{name}</th>" for name in (escaped(device), *numbers))
    rows = "".join(_phase(row, cells) for row, cells in sentences.rows_of(report, device))
    return (
        f"<div class='scroll'><table><thead><tr>{head}<th class='text'>{how}</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _phase(row: PhaseRow, cells: list[str]) -> str:
    kind = "modelled" if row.is_modelled else ("refused" if row.energy_j is None else "")
    *numbers, how = map(escaped, cells)
    return (
        f"<tr class='{kind}'>{''.join(f'<td>{cell}</td>' for cell in numbers)}"
        f"<td class='text'>{how}</td></tr>"
    )


def _pairs(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td>{escaped(what)}</td><td class='text'>{escaped(how)}</td></tr>"
        for what, how in rows
    )
    return f"<div class='scroll'><table><tbody>{cells}</tbody></table></div>"


def table_of(table: Table) -> str:
    """A table of text with its title."""

    def row(cells: Any, tag: str) -> str:
        columns = []
        for i, cell in enumerate(cells):
            words = i in table.text
            columns.append(
                f"<{tag}{' class=text' if words else ''}>"
                f"{escaped(cell if words else _unbroken(cell))}</{tag}>"
            )
        return f"<tr>{''.join(columns)}</tr>"

    title = f"<h3>{escaped(table.title)}</h3>" if table.title else ""
    rows = "".join(row(cells, "td") for cells in table.rows)
    return (
        f"{title}<div class='scroll'><table class='plain'><thead>{row(table.head, 'th')}"
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def _unbroken(cell: str) -> str:
    """A number stays with its unit; an interval may be broken at its middle."""
    return cell.replace(" ", "\u00a0").replace("\u00a0…\u00a0", " … ")
