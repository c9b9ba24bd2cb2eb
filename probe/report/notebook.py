"""What a notebook shows of a report: the answer, its first table, a chart, the notes."""

from __future__ import annotations

from ..errors import UsageError
from .document import Document
from .formats.html import escaped, with_code
from .formats.html import table_of as table
from .group_document import document_of
from .group_model import GroupReport
from .model import Report
from .numbers import unbroken
from .svg_charts import charts

# Of the notebook's own theme; only what it does not have is ours.
_STYLE = (
    ".phasewatt table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".phasewatt th,.phasewatt td{text-align:right;padding:.25em .6em;white-space:nowrap}"
    ".phasewatt .text{text-align:left}.phasewatt .scroll{overflow-x:auto}"
    ".phasewatt .modelled,.phasewatt .refused{opacity:.7}"
    ".phasewatt .total td{font-weight:600;border-top:2px solid}"
    ".phasewatt .limit{border-left:4px solid #E69F00;padding-left:.7em}"
    ".phasewatt figure{margin:1em 0;background:#fff;max-width:60em}"
    ".phasewatt figure svg{width:100%;height:auto}"
)


_GOES_ON = "It goes on: run the cell again for later figures; <code>close()</code> ends it."


def fragment(report: Report | GroupReport) -> str:
    """The report as a ``div`` of HTML without scripts. Of a live run it says how to see more."""
    shown = document_of(report)
    answer = shown.answer
    parts = [
        f"<p><strong>{escaped(unbroken(answer.headline))}</strong></p>",
        f"<p>{escaped(unbroken(answer.used))}</p>",
        f"<p class='limit'>{with_code(answer.limit)}</p>" if answer.limit else "",
        *_first_table(shown),
        _chart(report),
        "".join(f"<p class='limit'>{with_code(line)}</p>" for line in shown.notes),
        f"<p>{escaped(shown.name)} · {escaped(shown.state)}</p>",
        f"<p>{_GOES_ON}</p>" if isinstance(report, Report) and not report.final else "",
    ]
    return f"<div class='phasewatt'><style>{_STYLE}</style>{''.join(parts)}</div>"


def _first_table(shown: Document) -> list[str]:
    for section in shown.shown(details=False):
        if section.tables:
            return [table(section.tables[0])]
    return []


def _chart(report: Report | GroupReport) -> str:
    """The first chart; nothing where matplotlib is missing."""
    try:
        drawn = charts(report)
    except UsageError:
        return ""
    if not drawn:
        return ""
    label = escaped(drawn[0].caption)
    return f"<figure role='img' aria-label='{label}'>{drawn[0].svg}</figure>"
