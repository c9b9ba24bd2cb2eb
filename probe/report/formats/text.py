"""The report for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ..document import Document, Section
from ..group_document import brief_of, document_of
from ..group_model import GroupReport
from ..model import Report
from ..numbers import unbroken
from ..printable import printable
from ..text_tables import Table

_BOLD, _DIM, _YELLOW, _END = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m"
_MARKS = {"modelled": _DIM, "refused": _DIM, "total": _BOLD}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a text looks like.

    Attributes:
        width: columns of the terminal; columns of a table that do not fit are left out.
        colour: with ANSI colours.
        devices: also a table for each device, each rank and each training of a group.
        short: five lines.
    """

    width: int = 100
    colour: bool = False
    devices: bool = False
    short: bool = False


def render(report: Report | GroupReport) -> str:
    """The answer first, then a table of all devices together, then what limits it."""
    return shaped(report, Shape())


def shaped(report: Report | GroupReport, shape: Shape) -> str:
    """The text in another shape than the usual one."""
    if shape.short:
        return "\n".join(map(printable, brief_of(report)))
    text = _Text(shape.width, shape.colour)
    return "\n".join(text.lines(document_of(report), details=shape.devices)).rstrip()


class _Text:
    """Lines of a document for a terminal."""

    def __init__(self, width: int, colour: bool) -> None:
        self._width, self._colour = width, colour

    def lines(self, shown: Document, *, details: bool) -> Iterator[str]:
        """The document, line by line."""
        answer = shown.answer
        yield from self._wrapped(answer.headline, style=_BOLD)
        yield from self._wrapped(answer.used)
        if answer.limit:
            yield from self._wrapped(f"! {answer.limit}", style=_YELLOW)
        yield ""
        yield from self._wrapped(f"{shown.name} · {shown.state}", style=_DIM)
        yield ""
        for section in shown.shown(details=details):
            yield from self._section(section)
            yield ""
        for line in shown.notes:
            yield from self._wrapped(f"! {line}", style=_YELLOW)

    def _section(self, section: Section) -> Iterator[str]:
        if section.title and not any(table.title for table in section.tables) and not section.pairs:
            yield section.title.lower()
        for place, table in enumerate(section.tables):
            if place:
                yield ""
            yield from self._table(table)
        for line in section.lines:
            yield from self._wrapped(line, indent="  ")
        if section.pairs:
            widest = max(len(what) for what, _ in section.pairs)
            for what, how in section.pairs:
                yield from self._wrapped(f"{what.ljust(widest)}  {how}", more=" " * (widest + 2))

    def _table(self, table: Table) -> Iterator[str]:
        for line, mark in table.marked_lines(self._width):
            yield self._styled(line, _MARKS.get(mark, ""))

    def _wrapped(
        self, text: str, *, indent: str = "", more: str = "  ", style: str = ""
    ) -> Iterator[str]:
        """One line, over several of the terminal's; a word is never torn."""
        for line in textwrap.wrap(
            unbroken(text),
            self._width,
            initial_indent=indent,
            subsequent_indent=indent + more,
            break_long_words=False,
            break_on_hyphens=False,
        ):
            yield self._styled(line.replace("\u00a0", " "), style)

    def _styled(self, line: str, style: str) -> str:
        line = printable(line)
        return f"{style}{line}{_END}" if self._colour and style else line
