"""The report as PDF, set by typst from the same words and charts as the HTML."""

from __future__ import annotations

import json
from typing import Any

from ...errors import UsageError
from ..document import Section
from ..group_document import document_of
from ..group_model import GroupReport
from ..model import JsonValue, Report
from ..sentences import LIMITS, METHOD, short
from ..svg_charts import charts
from ..text_tables import Table

LONGEST_TEXT = 300  # characters of a name or a warning
_LONGEST_NAME = 28  # of a phase

# All that comes from a run is read as data: no name can become markup.
_PAGE = """
#let data = json("data.json")
#set document(title: data.name)
#set page(paper: "a4", margin: (x: 1.8cm, y: 1.8cm), footer: context [
  #set text(8pt, fill: luma(110))
  #data.id #h(1fr) #counter(page).display("1 / 1", both: true)
])
#set text(9.5pt)
#set par(justify: false)
#let rule = (x: none, top: none, bottom: 0.4pt + luma(200))
#show heading.where(level: 1): set text(18pt)
#show heading.where(level: 2): set text(11.5pt)
#show heading.where(level: 3): set text(9.5pt)
= #data.headline
#text(12pt, weight: "bold")[#data.used]

#if data.limit != "" [ #block(fill: rgb("#fdf3dc"), inset: 6pt, width: 100%)[#data.limit] ]
#text(fill: luma(90))[#strong(data.name) · #data.state]

#let grid(t) = block(breakable: t.rows.len() > 20)[
  #if t.title != "" [ === #t.title ]
  #set text(8pt)
  #table(
    columns: t.head.len(), stroke: rule, inset: (x: 4pt, y: 3.5pt),
    align: (x, y) => if x in t.text { left } else { right },
    table.header(..t.head.map(name => strong(name))),
    ..t.rows.flatten().map(cell => [#cell]),
  )
]
#let pairs(rows) = table(columns: (auto, 1fr), stroke: rule,
  ..rows.flatten().map(cell => [#cell]))
#let section(part) = {
  if part.title != "" [ == #part.title ]
  for t in part.tables { grid(t) }
  for line in part.lines [ #text(8.5pt, fill: luma(70))[#line] \\ ]
  if part.pairs.len() > 0 { set text(8.5pt); pairs(part.pairs) }
}
#section(data.first)
#for chart in data.charts [
  #block(breakable: false)[
    == #chart.title
    #image(chart.file, width: 100%, alt: chart.caption)
    #text(8.5pt, fill: luma(90))[#chart.caption]
  ]
]
#for part in data.sections { section(part) }
#if data.notes.len() > 0 [ == Notes ]
#for line in data.notes [
  #block(fill: rgb("#fdf3dc"), inset: 6pt, width: 100%)[#line]
]
#block(breakable: false)[
  == Method and limits
  #set text(8.5pt)
  #data.method

  #data.limits
]
#for part in data.details { section(part) }
"""


def render(report: Report | GroupReport) -> bytes:
    """The document.

    Raises:
        UsageError: typst, which sets it, or matplotlib is not installed.
    """
    try:
        import typst
    except ImportError:
        raise UsageError("pdf needs typst: pip install 'phasewatt[reports]'") from None
    drawn = charts(report)
    files = {f"chart{i}.svg": chart.svg.encode() for i, chart in enumerate(drawn)}
    shown = document_of(report)
    first, *sections = shown.shown(details=False) or [Section("")]
    details = [section for section in shown.shown(details=True) if section.detail]
    data = {
        "name": short(shown.name, LONGEST_TEXT),
        "id": shown.id,
        "state": f"{shown.state}, {shown.begun}",
        "headline": shown.answer.headline,
        "used": shown.answer.used,
        "limit": shown.answer.limit,
        "notes": [short(line, LONGEST_TEXT) for line in shown.notes],
        "charts": [
            {"title": c.title, "caption": c.caption, "file": f"chart{i}.svg"}
            for i, c in enumerate(drawn)
        ],
        "first": _section(first),
        "sections": [_section(section) for section in sections],
        "details": [_section(section) for section in sorted(details, key=lambda s: len(s.tables))],
        "method": METHOD,
        "limits": LIMITS,
    }
    files |= {"main.typ": _PAGE.encode(), "data.json": json.dumps(data).encode()}
    compile_: Any = typst.compile  # its stubs do not know of files in memory
    document_bytes: bytes = compile_(files)
    return document_bytes


def _section(section: Section) -> dict[str, JsonValue]:
    return {
        "title": section.title,
        "tables": [_table(table) for table in section.tables],
        "lines": [short(line, LONGEST_TEXT) for line in section.lines],
        "pairs": [[what, short(how, LONGEST_TEXT)] for what, how in section.pairs],
    }


def _table(table: Table) -> dict[str, JsonValue]:
    return {
        "title": table.title,
        "head": list(table.head),
        "rows": [[short(row[0], _LONGEST_NAME), *row[1:]] for row in table.rows],
        "text": sorted(table.text),
    }
