"""Tables of text, and differences with their sign: what is saved is positive."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from .numbers import duration, energy, number
from .printable import printable

_INDENT, _BETWEEN = "  ", "  "
_NARROWEST = 12  # characters of a column of words
_MIB = 2**20
_NOTHING = 1e-9  # what is left of a difference of equal sums


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column is a name.

    Attributes:
        text: the columns that hold words and are aligned to the left.
        optional: columns that a narrow screen leaves out, the first to go first.
        marks: of each row: "" or "modelled", "refused", "total"; empty: no row has any.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: frozenset[int] = frozenset({0})
    optional: Sequence[int] = ()
    marks: Sequence[str] = ()

    def lines(self, width: int | None = None) -> list[str]:
        """The table for a terminal of so many columns, line by line; None: of any width."""
        return [line for line, _ in self.marked_lines(width)]

    def marked_lines(self, width: int | None = None) -> list[tuple[str, str]]:
        """The lines, each with the mark of its row."""
        lines = (
            _broken(self.title, (width or len(self.title) + 2) - len(_INDENT)) if self.title else []
        )
        title = [(line if place == 0 else _INDENT + line, "") for place, line in enumerate(lines)]
        return title + [(f"{_INDENT}{line}", mark) for line, mark in self._body(width)]

    def mark(self, row: int) -> str:
        """What kind of row it is."""
        return self.marks[row] if self.marks else ""

    def _body(self, width: int | None) -> list[tuple[str, str]]:
        rows = [self.head, *self.rows]
        marks = ["", *(self.marks or [""] * len(self.rows))]
        columns, widths = self._fitted(rows, width)
        lines = []
        for row, mark in zip(rows, marks, strict=True):
            cells = [
                _broken(row[column], size)
                if column in self.text or row is self.head
                else [row[column]]
                for column, size in zip(columns, widths, strict=True)
            ]
            for line in range(max(map(len, cells))):
                parts = []
                for column, cell, size in zip(columns, cells, widths, strict=True):
                    text = cell[line] if line < len(cell) else ""
                    parts.append(text.ljust(size) if column in self.text else text.rjust(size))
                lines.append((_BETWEEN.join(parts).rstrip(), mark))
        return lines

    def _fitted(
        self, rows: Sequence[Sequence[str]], width: int | None
    ) -> tuple[list[int], list[int]]:
        """The columns that are shown, and how wide each of them is."""
        columns = list(range(len(self.head)))
        widths = [max(len(row[column]) for row in rows) for column in columns]
        if width is None:
            return columns, widths
        room = width - len(_INDENT)
        for column in self.optional:
            if _total(widths[column] for column in columns) <= room:
                break
            columns.remove(column)
        shown = [widths[column] for column in columns]
        words = [place for place, column in enumerate(columns) if column in self.text]
        while words and _total(shown) > room:  # the widest column of words is broken over lines
            widest = max(words, key=shown.__getitem__)
            if shown[widest] <= _NARROWEST:
                break
            shown[widest] -= 1
        if _total(shown) > room:  # a heading takes several lines before a number is cut
            for place, column in enumerate(columns):
                cells = max((len(row[column]) for row in self.rows), default=0)
                longest_word = max(map(len, self.head[column].split()), default=0)
                shown[place] = min(shown[place], max(cells, longest_word))
        return columns, shown


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + len(_BETWEEN) * (len(sizes) - 1)


def _broken(text: str, width: int) -> list[str]:
    """A cell over several lines; a word is broken only if it is longer than a line."""
    # A column of which nothing is known has no width.
    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [""]


def unique(values: Iterable[str]) -> list[str]:
    """The values without repeats, in their order."""
    seen: list[str] = []
    for value in values:
        if value not in seen:
            seen.append(value)
    return seen


def aligned(rows: Sequence[Sequence[str]], text: Container[int]) -> list[str]:
    """Rows of cells as lines with aligned columns.

    Args:
        text: the columns that are aligned to the left; the others hold numbers.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if place in text else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(_BETWEEN.join(cells).rstrip())
    return lines


def seconds(value: float | None) -> str:
    """Seconds with their sign and a fitting unit."""
    if value is None:
        return "—"
    return "0 s" if abs(value) < _NOTHING else f"{'−' if value < 0 else ''}{duration(abs(value))}"


def joules(value: float | None) -> str:
    """Joules with their sign and a fitting unit."""
    if value is None:
        return "—"
    return "0 J" if abs(value) < _NOTHING else f"{'−' if value < 0 else ''}{energy(abs(value))}"


def mebibytes(value: float | None) -> str:
    """Bytes with their sign, in MiB."""
    return "—" if value is None else f"{'−' if value < 0 else ''}{number(abs(value) / _MIB)} MiB"


def percent(value: float | None) -> str:
    """A percentage with its sign and three digits."""
    if value is None:
        return ""
    size = abs(value)
    if 0 < size < 1e-3:
        return "under 0.001 %"
    digits = f"{float(f'{size:.3g}'):.0f}" if size >= 1000 else f"{size:.3g}"
    return f"{'−' if value < 0 else ''}{digits} %"


def signed_percent(value: float) -> str:
    """A percentage as `percent` writes it; one above zero has a plus sign."""
    text = percent(value)
    return f"+{text}" if value > 0 and text[0].isdigit() else text


def between(limits: Sequence[float | None] | None, unit: Callable[[float | None], str]) -> str:
    """An interval; one end may be open."""
    if limits is None:
        return ""
    low, high = limits
    if low is None:
        return f"at most {unit(high)}"
    if high is None:
        return f"at least {unit(low)}"
    return f"{unit(low)} … {unit(high)}"
