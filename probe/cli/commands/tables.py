"""``probe tables BASE OTHER``: the tables of the paper from your own runs."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from ...errors import UsageError
from ...report.formats.md import cell, grid
from ...report.numbers import number
from ...report.text_tables import Table, mebibytes, percent
from ..arguments import add_dir, add_output, seconds
from ..output import write

if TYPE_CHECKING:
    from ...compare.paper.model import PaperRow, PaperTables

SUMMARY = "the tables of the paper from your runs, each beside the paper's figure"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("base", metavar="BASE", help="as of `probe compare`")
    parser.add_argument("other", metavar="OTHER", help="the same")
    add_dir(parser)
    parser.add_argument("--target", metavar="METRIC>=VALUE", help="as of `probe compare`")
    parser.add_argument("--ablation", metavar="DIR", help="of `probe ablate`, for Table III")
    parser.add_argument(
        "--months",
        type=seconds,
        default=5.0,
        help="over which the gain was made, for the doubling time (5)",
    )
    parser.add_argument("--format", default="text", help="text, md or json")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...compare.paper.tables import tables
    from ...report.serialization import to_dict

    if options.format not in ("text", "md", "json"):
        raise UsageError(f"no format {options.format!r} of the tables: text, md or json")
    all_tables = tables(
        options.base,
        options.other,
        directory=options.dir,
        target=options.target,
        ablation=options.ablation,
        months=options.months,
    )
    if options.format == "json":
        rendered = json.dumps(to_dict(all_tables), indent=1, allow_nan=False)
    else:
        rendered = text(all_tables) if options.format == "text" else md(all_tables)
    return write(rendered, options.format, options.output)


def text(all_tables: PaperTables) -> str:
    """All tables below each other."""
    lines = _about(all_tables)
    for table in _tables(all_tables):
        lines += ["", *table.lines()]
    return "\n".join(lines)


def md(all_tables: PaperTables) -> str:
    """All tables as Markdown, below each other."""
    lines = [cell(row) + "  " for row in _about(all_tables)]
    for table in _tables(all_tables):
        lines += ["", f"**{cell(table.title)}**", "", *grid(table)]
    return "\n".join(lines)


def _about(all_tables: PaperTables) -> list[str]:
    base, other = (
        f"{side.name} ({len(side.ids)} runs)" for side in (all_tables.base, all_tables.other)
    )
    target = all_tables.target
    work = (
        "the same work"
        if target is None
        else f"until {target.metric} {target.direction} {number(target.value)}"
    )
    why = f": {all_tables.reason}" if all_tables.reason else ""
    settings = {"base": all_tables.settings.base, "other": all_tables.settings.other}
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
    return [
        Table(
            f"Table {stated.table}: {stated.title}" if stated.table else stated.title,
            ["", "base", "ours", "change", "95 % interval", "verdict", "paper"],
            [_cells(row) for row in stated.rows],
            frozenset({0, 5, 6}),
        )
        for stated in all_tables.tables
    ]


def _cells(row: PaperRow) -> list[str]:
    return [
        row.what,
        "" if row.base is None else _value(row.base, row.unit),
        row.ours or "" if row.other is None else _value(row.other, row.unit),
        percent(row.percent),
        _limits(row),
        row.verdict or "",
        row.paper or "—",
    ]


def _value(value: float, unit: str) -> str:
    return mebibytes(value) if unit == "B" else f"{number(value)} {unit}".rstrip()


def _limits(row: PaperRow) -> str:
    if row.interval_percent:
        low, high = row.interval_percent
        return f"{percent(low)} … {percent(high)}"
    if row.interval:
        low_end, high_end = ("never" if end is None else number(end) for end in row.interval)
        return f"{low_end} … {high_end}"
    return ""
