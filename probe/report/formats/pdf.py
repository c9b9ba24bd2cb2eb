"""The report as PDF, set by typst from the same words and charts as the HTML."""

from __future__ import annotations

import json
from typing import Any

from ...errors import UsageError
from .. import sentences
from ..model import Report
from ..numbers import duration, energy
from ..svg_charts import charts

LONGEST_TEXT = 300  # characters of a name or a warning

# All that comes from a run is read as data: no name can become markup.
_PAGE = """
#let data = json("data.json")
#set document(title: data.name)
#set page(paper: "a4", margin: (x: 2cm, y: 2cm), footer: context [
  #set text(8pt, fill: luma(110))
  #data.id #h(1fr) #counter(page).display("1 / 1", both: true)
])
#set text(10pt)
#set par(justify: false)
#let rule = (x: none, top: none, bottom: 0.4pt + luma(200))
#show heading.where(level: 2): set text(12pt)
= #data.name
#text(fill: luma(90))[#data.state]

#text(20pt, weight: "bold")[#data.headline]

#text(fill: luma(90))[#data.beside]
#for line in data.warnings [
  #block(fill: rgb("#fdf3dc"), inset: 6pt, width: 100%)[#line]
]
#for chart in data.charts [
  #block(breakable: false)[
    == #chart.title
    #image(chart.file, width: 100%, alt: chart.caption)
    #text(9pt, fill: luma(90))[#chart.caption]
  ]
]
#for device in data.devices [
  == Phases on #device.name
  #set text(8.5pt)
  #table(
    columns: (auto, auto, auto, auto, auto, auto, auto, 1fr), stroke: rule,
    align: (x, y) => if x == 0 or x == 7 { left } else { right },
    table.header(..data.columns.map(name => strong(name))),
    ..device.rows.flatten().map(cell => [#cell]),
  )
]
#let pairs(rows) = table(columns: (auto, 1fr), stroke: rule,
  ..rows.flatten().map(cell => [#cell]))
#for part in data.parts [
  #block(breakable: false)[
    == #part.title
    #set text(9pt)
    #pairs(part.rows)
  ]
]
== Method and limits
#data.method

#data.limits
"""


def render(report: Report) -> bytes:
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
    run, total = report.run, report.total
    beside = []
    if total.modelled_energy_j is not None:
        modelled = energy(total.modelled_energy_j)
        beside.append(f"and {modelled} of CPU and RAM by a model, not in it")
    beside += sentences.tariffs(report)
    ended = f" ({sentences.short(run.ended_by, LONGEST_TEXT)})" if run.ended_by else ""
    steps = f", {run.steps} steps" if run.steps else ""
    data = {
        "name": sentences.short(run.name or run.id, LONGEST_TEXT),
        "id": run.id,
        "state": f"{run.status}{ended} after {duration(run.duration_s)}{steps}, begun "
        f"{run.started[:19]} UTC",
        "headline": sentences.headline(report),
        "beside": " · ".join(beside),
        "warnings": [sentences.short(line, LONGEST_TEXT) for line in report.warnings],
        "charts": [
            {"title": c.title, "caption": c.caption, "file": f"chart{i}.svg"}
            for i, c in enumerate(drawn)
        ],
        "devices": [
            {"name": sentences.short(device, LONGEST_TEXT), "rows": _rows(report, device)}
            for device in dict.fromkeys(row.device for row in report.phases)
        ],
        "parts": [
            {"title": "What was measured", "rows": sentences.provenance(report)},
            {"title": "How well", "rows": sentences.quality(report)},
            {"title": "Where", "rows": sentences.machine(report)},
        ],
        "columns": sentences.COLUMNS,
        "method": sentences.METHOD,
        "limits": sentences.LIMITS,
    }
    files |= {"main.typ": _PAGE.encode(), "data.json": json.dumps(data).encode()}
    compile_: Any = typst.compile  # its stubs do not know of files in memory
    document: bytes = compile_(files)
    return document


def _rows(report: Report, device: str) -> list[list[str]]:
    return [
        [sentences.short(cells[0], 24), *cells[1:]]
        for _, cells in sentences.rows_of(report, device)
    ]
