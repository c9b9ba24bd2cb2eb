"""The comparison as one HTML file: no script, no network, dark and light."""

from __future__ import annotations

from typing import Any

from ..html import escaped, page
from ..tables import Table
from ._tables import parts, what


def render(comparison: dict[str, Any]) -> str:
    """A whole page."""
    body = [f"<header><h1>Did it pay?</h1><p class='soft'>{escaped(what(comparison))}</p></header>"]
    for part in parts(comparison):
        body.append(f"<h2>{escaped(part.heading)}</h2>"
                    f"<p class='figure'>{escaped(part.verdict)}</p>")
        body += [_table(table) for table in part.tables]
        body += [f"<p>{escaped(remark)}</p>" for remark in part.remarks]
    if comparison["warnings"]:
        lines = "".join(f"<li>{escaped(line)}</li>" for line in comparison["warnings"])
        body.append(f"<ul class='warnings'>{lines}</ul>")
    return page(escaped(f"{comparison['base']['name'][:100]} compared"), "".join(body))


def _table(table: Table) -> str:
    def row(cells: Any, tag: str) -> str:
        said = []
        for i, cell in enumerate(cells):
            words = i in table.text
            said.append(f"<{tag}{' class=text' if words else ''}>"
                        f"{escaped(cell if words else _unbroken(cell))}</{tag}>")
        return f"<tr>{''.join(said)}</tr>"

    title = f"<h3>{escaped(table.title)}</h3>" if table.title else ""
    rows = "".join(row(cells, "td") for cells in table.rows)
    return (f"{title}<div class='scroll'><table class='plain'><thead>{row(table.head, 'th')}"
            f"</thead><tbody>{rows}</tbody></table></div>")


def _unbroken(cell: str) -> str:
    """A number stays with its unit; an interval may be broken at its middle."""
    return cell.replace(" ", "\u00a0").replace("\u00a0…\u00a0", " … ")
