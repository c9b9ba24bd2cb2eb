"""The paper's tables as text and as Markdown: below ours are its interval and the paper's."""

from __future__ import annotations

import math
import textwrap

from ...report.formats.md import cell, grid
from ...report.numbers import interval, number
from ...report.printable import printable
from ...report.text_tables import Table
from ..gain import Interval, OpenInterval
from .model import (
    NOT_MEASURED,
    ComponentRow,
    FigureRow,
    PaperFigures,
    PaperRow,
    PaperTable,
    PaperTables,
    Stated,
)

WIDTH = 100  # without a terminal
_INTERVAL, _PAPER, _NOTHING = "  95 % interval", "  paper", "—"


def text(all_tables: PaperTables, width: int = WIDTH) -> str:
    """All tables below each other, for a terminal of so many columns."""
    lines = []
    for line in _about(all_tables):
        lines += textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False)
    for table in _tables(all_tables):
        lines += ["", *table.lines(width)]
    if all_tables.notes:
        lines.append("")
    for note in all_tables.notes:
        lines += textwrap.wrap(note, width, initial_indent="! ", subsequent_indent="  ")
    return "\n".join(map(printable, lines))


def md(all_tables: PaperTables) -> str:
    """All tables as Markdown, below each other."""
    lines = [cell(row) + "  " for row in _about(all_tables)]
    for table in _tables(all_tables):
        lines += ["", f"**{cell(table.title)}**", "", *grid(table)]
    return "\n".join([*lines, "", *(f"- {cell(note)}" for note in all_tables.notes)])


def _about(all_tables: PaperTables) -> list[str]:
    base, other = (
        f"{side.name} ({len(side.ids)} run{'s' if len(side.ids) > 1 else ''})"
        for side in (all_tables.base, all_tables.other)
    )
    target = all_tables.target
    work = (
        "the same work"
        if target is None
        else f"until {target.metric} {target.direction} {number(target.value)}"
    )
    why = f": {all_tables.reason}" if all_tables.reason else ""
    settings = {"baseline": all_tables.settings.base, "optimised": all_tables.settings.other}
    return [
        f"{other} against {base}, {work}; {all_tables.verdict}{why}",
        f"on {all_tables.hardware}; data {all_tables.data}",
        *(
            f"{side}: {', '.join(f'{name} {value}' for name, value in values.items())}"
            for side, values in settings.items()
            if values
        ),
    ]


def _tables(all_tables: PaperTables) -> list[Table]:
    return [_table(stated) for stated in all_tables.tables]


def _table(stated: PaperTable) -> Table:
    title = f"Table {stated.table}: {stated.title}" if stated.table else stated.title
    both = [row for row in stated.rows if isinstance(row, PaperRow)]
    if both:
        head = ["", "baseline", "optimised", "Δ", "relative", "verdict"]
        rows = [cells for row in both for cells in _of_both(row)]
        return Table(title, head, rows, frozenset({0, 5}), optional=(5,))
    components = [row for row in stated.rows if isinstance(row, ComponentRow)]
    if components:
        head = ["", "min", "GB", stated.of, "faster", "less memory"]
        head += ["less energy", "verdict"]
        rows = [cells for row in components for cells in _of_component(row)]
        return Table(title, head, rows, frozenset({0, 7}), optional=(7, 6))
    figures = [row for row in stated.rows if isinstance(row, FigureRow)]
    head = ["", "ours", "95 % interval", "paper"]
    return Table(title, head, [_of_figure(row) for row in figures], frozenset({0, 3}))


def _of_both(row: PaperRow) -> list[list[str]]:
    """A row of ours, one of its intervals, one of the paper's figures."""
    half = _half(row.interval_change)
    missing = row.ours or ""
    what = f"{row.what} ({row.unit})" if row.unit else row.what
    if row.base is None and row.other is None:
        rows = [[what, "", missing, "", "", ""]]
    else:
        rows = [
            [
                what,
                "" if row.base is None and not missing else _side(row.base, row),
                _side(row.other, row),
                _signed(row.change, half),
                _percent(row.percent, row.interval_percent),
                row.verdict or "",
            ]
        ]
    if row.interval_change:
        rows.append(
            [
                _INTERVAL,
                "",
                "",
                _between(row.interval_change, signed=True),
                _between(row.interval_percent, signed=True) if row.interval_percent else "",
                "",
            ]
        )
    elif row.no_interval:
        rows.append([_INTERVAL, "", "", row.no_interval, "", ""])
    if row.paper is not None:
        rows.append(_of_paper(row.paper))
    return rows


def _of_paper(paper: PaperFigures) -> list[str]:
    return [
        f"{_PAPER}, {paper.of}" if paper.of else _PAPER,
        _printed(paper.base),
        _printed(paper.other),
        _printed(paper.change),
        _printed(paper.percent, " %"),
        "",
    ]


def _of_component(row: ComponentRow) -> list[list[str]]:
    if row.ours:
        rows = [[row.what, row.ours, "", "", "", "", "", ""]]
    else:
        rows = [
            [
                row.what,
                _number(row.time),
                _number(row.memory),
                number(row.quality, 0.05) if row.quality else _NOTHING,
                _saved(row.faster, row.interval_faster),
                _saved(row.less_memory, row.interval_less_memory),
                _saved(row.less_energy, row.interval_less_energy),
                row.verdict or "",
            ]
        ]
    intervals = [row.interval_faster, row.interval_less_memory, row.interval_less_energy]
    if any(intervals):
        limits = [_between(each) if each else "" for each in intervals]
        rows.append([_INTERVAL, "", "", "", *limits, ""])
    if row.paper is not None:
        paper = row.paper
        name = f"{_PAPER}, {paper.of}" if paper.of else _PAPER
        figures = [_printed(each) for each in (paper.time, paper.memory, paper.quality)]
        saved = [_printed(each, " %") if each else "" for each in (paper.faster, paper.less_memory)]
        rows.append([name, *figures, *saved, "", ""])
    return rows


def _of_figure(row: FigureRow) -> list[str]:
    limits = row.interval
    half = _nearer(row.value, limits)
    return [
        f"{row.what} ({row.unit})" if row.unit else row.what,
        row.ours or "" if row.value is None else _number(row.value, half),
        row.no_interval or "" if limits is None else _open(limits, half),
        row.paper or _NOTHING,
    ]


def _side(value: float | None, row: PaperRow) -> str:
    """A side's mean: three digits, or as many as show two of the change or of its error."""
    if value is None:
        return NOT_MEASURED
    smallest = [_three_digits(each) for each in (row.base, row.other) if each]
    if row.change:
        smallest.append(_half(row.interval_change) or abs(row.change) / 10)
    return _number(value, min(smallest, default=None))


def _three_digits(value: float) -> float:
    """An error that leaves a value three digits."""
    return 5 * 10.0 ** (math.floor(math.log10(abs(value))) - 2)


def _number(value: float | None, half: float | None = None) -> str:
    return _minus(number(value, half))


def _signed(value: float | None, half: float | None = None) -> str:
    if value is None:
        return ""
    shown = _number(value, half)
    return shown if shown.startswith("−") or shown == "0" else f"+{shown}"


def _saved(value: float | None, limits: Interval | None) -> str:
    return "" if value is None else f"{_number(value, _half(limits))} %"


def _percent(value: float | None, limits: Interval | None) -> str:
    return "" if value is None else f"{_signed(value, _half(limits))} %"


def _half(limits: Interval | None) -> float | None:
    return None if limits is None else (limits[1] - limits[0]) / 2


def _between(limits: Interval, *, signed: bool = False) -> str:
    low, high = interval(*limits).split(" … ")
    if signed:
        low, high = (end if end.startswith("-") or end == "0" else f"+{end}" for end in (low, high))
    return _minus(f"{low} … {high}")


def _nearer(value: float | None, limits: OpenInterval | None) -> float | None:
    """How far the nearer end of an interval is; None without one."""
    far = [abs(end - value) for end in limits or () if end is not None and value is not None]
    return min(far, default=None)


def _open(limits: OpenInterval, half: float | None) -> str:
    """An interval with the digits of its nearer half; an end may never be reached."""
    ends = [
        "never"
        if end is None
        else _number(end, max(half or 0.0, _three_digits(end) if end else 0.0))
        for end in limits
    ]
    return "never" if ends == ["never", "never"] else " … ".join(ends)


def _minus(shown: str) -> str:
    return shown.replace("-", "−")


def _printed(figure: Stated | None, unit: str = "") -> str:
    return _NOTHING if figure is None else figure.printed + unit
