"""The report as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from collections.abc import Iterable

from .. import rank_tables, sentences
from ..model import Report
from ..numbers import duration, energy
from ..text_tables import Table

MARKER = "<!-- phasewatt report -->"  # stable: a job finds the comment that it wrote before
_LONGEST = 120
_HARMLESS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`|*_[]<>#@"}


def render(report: Report) -> str:
    """Under 60 lines: totals, a table per device, meters, warnings."""
    run, total = report.run, report.total
    lines = [MARKER, f"### {cell(run.name or run.id)}: {sentences.headline(report)}", ""]
    steps = f", {sentences.steps(run)}" if run.steps else ""
    why = f" ({cell(run.ended_by)})" if run.ended_by else ""
    lines += [f"{run.status}{why} after {duration(run.duration_s)}{steps}; `{run.id}`", ""]
    if total.modelled_energy_j is not None:
        lines += [
            f"Besides, {energy(total.modelled_energy_j)} of CPU and RAM by a model, not measured.",
            "",
        ]
    for table in rank_tables.all_ranks(report):
        lines += table_of(table)
    for device in dict.fromkeys(row.device for row in report.phases):
        lines += _table(report, device)
    for table in rank_tables.tables(report):
        lines += table_of(table)
    if report.warnings:
        lines += [f"- {cell(line)}" for line in report.warnings[:10]]
    return "\n".join(lines).rstrip()


def _table(report: Report, device: str) -> list[str]:
    head = [cell(device), *sentences.COLUMNS[1:]]
    lines = [line(head), line(["---", *["---:"] * 6, "---"])]
    rows = sorted(sentences.rows_of(report, device), key=lambda table: -table[0].time_s)
    lines += [line(map(cell, cells)) for _, cells in rows[:12]]
    return [*lines, ""]


def line(cells: Iterable[str]) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def cell(text: str) -> str:
    """One line that neither ends a cell nor begins a tag, a link or a mention."""
    return sentences.short(text, _LONGEST).translate(_HARMLESS)


def table_of(table: Table) -> list[str]:
    """A table of text with its title."""
    title = [f"{cell(table.title)}:", ""] if table.title else []
    return [*title, *grid(table), ""]


def grid(table: Table) -> list[str]:
    """A table of text without its title."""
    rule = ["---" if i in table.text else "---:" for i in range(len(table.head))]
    rows = [line(map(cell, row)) for row in [table.head, *table.rows]]
    return [rows[0], line(rule), *rows[1:]]
