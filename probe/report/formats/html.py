"""The report as one HTML file: no script, no network, dark and light."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .. import sentences
from ..document import Document, Section
from ..group_document import document_of
from ..group_model import GroupReport
from ..model import Report
from ..numbers import unbroken
from ..svg_charts import charts
from ..text_tables import Table

_LONGEST_NAME = 60  # characters of a cell that is a name

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #5a5a5a; --line: #d8d8d8; --card: #fff;
  --ground: #f6f6f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #a9a9a9; --line: #3c3c3c;
  --card: #1e1e1e; --ground: #141414; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; max-width: 66rem; padding: 1.5rem 1rem 3rem; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.1rem; margin: 1.8rem 0 .6rem; } h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p, li { max-width: 46rem; } code { overflow-wrap: anywhere; }
.figure { font-size: 2rem; font-weight: 600; margin: .6rem 0 0; }
.used { font-size: 1.15rem; font-weight: 600; margin: .5rem 0 0; }
.limit { border-left: 4px solid #E69F00; padding-left: .7rem; margin: .6rem 0; }
.soft, figcaption { color: var(--soft); }
figure { margin: 1rem 0; padding: .8rem; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; overflow-x: auto; }
figure svg { width: 100%; height: auto; } figcaption { color: #5a5a5a; font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; background: var(--card);
  font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top; }
th { font-weight: 600; color: var(--soft); } .text { text-align: left; }
td.text { white-space: normal; min-width: 6rem; } td.text:nth-child(n+2) { min-width: 11rem; }
.modelled { font-style: italic; color: var(--soft); } .refused { color: var(--soft); }
.total td { font-weight: 600; border-top: 2px solid var(--line); }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
ul.notes { padding: .7rem 1rem .7rem 2rem; border-left: 4px solid #E69F00;
  background: var(--card); }
@media (max-width: 40rem) { body { padding-top: 1rem; } h1 { font-size: 1.5rem; }
  th, td { padding: .25rem .4rem; } }
@media print { body { background: none; max-width: none; } figure, tr { break-inside: avoid; }
  .scroll { overflow: visible; } td.text { min-width: 0; } table { font-size: .8rem; } }
"""


def render(report: Report | GroupReport) -> str:
    """A whole page: the answer, what it rests on, and behind a click what is per device.

    Raises:
        UsageError: matplotlib, which draws the charts, is not installed.
    """
    shown = document_of(report)
    answer = shown.answer
    body = [
        f"<header><h1>{escaped(unbroken(answer.headline))}</h1>",
        f"<p class='used'>{escaped(unbroken(answer.used))}</p>",
        f"<p class='limit'>{with_code(answer.limit)}</p>" if answer.limit else "",
        f"<p class='soft'><strong>{escaped(shown.name)}</strong> · {escaped(shown.state)}, "
        f"{escaped(shown.begun)}</p>",
        "</header>",
    ]
    sections = list(shown.shown(details=True))
    first = next((place for place, s in enumerate(sections) if s.tables), 0)
    body += map(_section, sections[: first + 1])
    body += [
        f"<h2>{chart.title}</h2>"
        f"<figure role='img' aria-label='{escaped(chart.caption)}'>{chart.svg}"
        f"<figcaption>{escaped(chart.caption)}</figcaption></figure>"
        for chart in charts(report)
    ]
    body += map(_section, sections[first + 1 :])
    body += [
        _notes(shown),
        "<details><summary>Method and limits</summary>"
        f"<p>{sentences.METHOD}</p><p>{sentences.LIMITS}</p></details>",
    ]
    return page(escaped(shown.name), "".join(body))


def page(title: str, body: str) -> str:
    """A page of ours; both are HTML already."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title} · phasewatt</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>"
    )


def escaped(value: str | int | float | None) -> str:
    """As text of a page or of an attribute."""
    return html.escape(str(value), quote=True)


def with_code(text: str) -> str:
    """A sentence as HTML; what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick is no code
        return escaped(text)
    return "".join(
        f"<code>{escaped(part)}</code>" if place % 2 else escaped(part)
        for place, part in enumerate(parts)
    )


def _section(section: Section) -> str:
    lines = "".join(f"<li>{with_code(line)}</li>" for line in section.lines)
    body = [*map(table_of, section.tables), f"<ul class='soft'>{lines}</ul>" if lines else ""]
    if section.pairs:
        body.append(_pairs(section.pairs))
    title = section.title
    if section.detail:
        title = title or (section.tables[0].title if section.tables else "More")
        return f"<details><summary>{escaped(title)}</summary>{''.join(body)}</details>"
    return "".join([f"<h2>{escaped(title)}</h2>" if title else "", *body])


def _notes(shown: Document) -> str:
    lines = "".join(f"<li>{with_code(line)}</li>" for line in shown.notes)
    return f"<h2>Notes</h2><ul class='notes'>{lines}</ul>" if lines else ""


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td class='text'>{escaped(what)}</td><td class='text'>{with_code(how)}</td></tr>"
        for what, how in rows
    )
    return f"<div class='scroll'><table><tbody>{cells}</tbody></table></div>"


def table_of(table: Table) -> str:
    """A table of text with its title."""

    def row(cells: Sequence[str], tag: str, mark: str = "") -> str:
        columns = []
        for place, cell in enumerate(cells):
            words = place in table.text
            text = escaped(sentences.short(cell, _LONGEST_NAME)) if place == 0 else with_code(cell)
            columns.append(f"<{tag}{' class=text' if words else ''}>{text}</{tag}>")
        kind = f" class='{mark}'" if mark else ""
        return f"<tr{kind}>{''.join(columns)}</tr>"

    title = f"<h3>{escaped(table.title)}</h3>" if table.title else ""
    rows = "".join(row(cells, "td", table.mark(place)) for place, cells in enumerate(table.rows))
    return (
        f"{title}<div class='scroll'><table><thead>{row(table.head, 'th')}"
        f"</thead><tbody>{rows}</tbody></table></div>"
    )
