"""Tables of text, and differences with their sign: what is saved is positive."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from .numbers import duration, energy, number

_MIB = 2**20
_NOTHING = 1e-9  # what is left of a difference of equal sums


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column is a name, ``text`` says which others are no numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: frozenset[int] = frozenset({0})

    def lines(self) -> list[str]:
        """The table for a terminal, line by line."""
        title = [self.title] if self.title else []
        return title + [f"  {line}" for line in aligned([self.head, *self.rows], self.text)]


def aligned(rows: Sequence[Sequence[str]], text: Container[int]) -> list[str]:
    """Rows of cells as lines with aligned columns.

    Args:
        text: the columns that are aligned to the left; the others hold numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if place in text else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
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
