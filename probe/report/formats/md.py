"""The report as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from collections.abc import Iterable

from .. import sentences
from ..group_document import document_of
from ..group_model import GroupReport
from ..model import Report
from ..text_tables import Table

MARKER = "<!-- phasewatt report -->"  # stable: a job finds the comment that it wrote before
_LONGEST = 120
_LONGEST_NOTE = 400
_MOST_NOTES = 10
_HARMLESS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`|*_[]<>#@"}


def render(report: Report | GroupReport) -> str:
    """The answer, a table of all devices together, meters and notes."""
    shown = document_of(report)
    answer = shown.answer
    lines = [MARKER, f"### {cell(answer.headline)}", "", f"**{cell(answer.used)}**", ""]
    if answer.limit:
        lines += [f"⚠ {prose(answer.limit)}", ""]
    lines += [f"{cell(shown.name)} · {cell(shown.state)}", ""]
    for section in shown.shown(details=False):
        if section.title and not any(table.title for table in section.tables):
            lines += [f"{section.title}:", ""]
        for table in section.tables:
            lines += table_of(table)
        if section.lines:
            lines += [*(f"- {prose(line)}" for line in section.lines), ""]
        lines += [f"- {cell(what)}: {prose(how)}" for what, how in section.pairs]
    if shown.notes:
        lines += ["", *(f"- ⚠ {prose(line)}" for line in shown.notes[:_MOST_NOTES])]
    return "\n".join(lines).rstrip()


def line(cells: Iterable[str]) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def cell(text: str) -> str:
    """One line that neither ends a cell nor begins a tag, a link or a mention."""
    return sentences.short(text, _LONGEST).translate(_HARMLESS)


def prose(text: str) -> str:
    """A sentence of ours: what it puts between backticks stays code, all else is harmless."""
    parts = sentences.short(text, _LONGEST_NOTE).split("`")
    if len(parts) % 2 == 0:  # an odd backtick is no code
        return "`".join(parts).translate(_HARMLESS)
    return "".join(
        f"`{part}`" if place % 2 and _is_code(part) else part.translate(_HARMLESS)
        for place, part in enumerate(parts)
    )


def _is_code(text: str) -> bool:
    """Whether it is a command or a call, in which nothing can become markup."""
    return bool(text.strip()) and not set(text) & set("<>|[]@\\")


def table_of(table: Table) -> list[str]:
    """A table of text with its title."""
    title = [f"{cell(table.title)}:", ""] if table.title else []
    return [*title, *grid(table), ""]


def grid(table: Table) -> list[str]:
    """A table of text without its title."""
    rule = ["---" if i in table.text else "---:" for i in range(len(table.head))]
    rows = [line(map(cell, row)) for row in [table.head, *table.rows]]
    return [rows[0], line(rule), *rows[1:]]
