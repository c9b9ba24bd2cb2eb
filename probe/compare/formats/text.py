"""The comparison for a terminal."""

from __future__ import annotations

import textwrap

from ...report.formats.text import Shape
from ...report.printable import printable
from ..model import ComparisonReport
from ._tables import parts


def render(report: ComparisonReport) -> str:
    """The answer and the tables of every other side, of the usual width."""
    return fitted(report, Shape().width)


def fitted(report: ComparisonReport, width: int) -> str:
    """The same for a terminal of so many columns."""
    lines: list[str] = []

    def add(sentence: str, first: str = "", others: str = "") -> None:
        lines.extend(
            textwrap.wrap(
                sentence,
                width,
                initial_indent=first,
                subsequent_indent=others,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    for part in parts(report):
        lines.append("")
        add(part.answer)
        add(part.basis, "  → ", "    ")
        for table in part.tables:
            lines += ["", *table.lines(width)]
        lines.append("")
        for remark in part.remarks:
            add(remark, "  ", "    ")
    if report.warnings:
        lines.append("")
        for warning in report.warnings:
            add(warning, "! ", "  ")
    return "\n".join(map(printable, lines)).strip("\n")
