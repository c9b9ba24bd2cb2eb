"""``probe tables BASE OTHER``: the tables of the paper from your own runs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ...errors import UsageError
from ...report.formats.md import cell, grid
from ...report.numbers import number
from ...report.text_tables import Table, mebibytes, percent
from ..arguments import add_dir, add_output, seconds
from ..output import write

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
        rendered = json.dumps(all_tables, indent=1, allow_nan=False)
    else:
        rendered = text(all_tables) if options.format == "text" else md(all_tables)
    return write(rendered, options.format, options.output)


def text(all_tables: dict[str, Any]) -> str:
    """All tables below each other."""
    lines = _about(all_tables)
    for table in _tables(all_tables):
        lines += ["", *table.lines()]
    return "\n".join(lines)


def md(all_tables: dict[str, Any]) -> str:
    """All tables as Markdown, below each other."""
    lines = [cell(row) + "  " for row in _about(all_tables)]
    for table in _tables(all_tables):
        lines += ["", f"**{cell(table.title)}**", "", *grid(table)]
    return "\n".join(lines)


def _about(all_tables: dict[str, Any]) -> list[str]:
    runs = [
        f"{all_tables[side]['name']} ({len(all_tables[side]['ids'])} runs)"
        for side in ("base", "other")
    ]
    target = all_tables["target"]
    work = (
        "the same work"
        if target is None
        else (f"until {target['metric']} {target['direction']} {number(target['value'])}")
    )
    why = f": {all_tables['reason']}" if all_tables["reason"] else ""
    return [
        f"{runs[1]} against {runs[0]}, {work}; {all_tables['verdict']}{why}",
        f"on {all_tables['hardware']}; data {all_tables['data']}",
        *(
            f"{side}: {', '.join(f'{k} {v}' for k, v in all_tables['settings'][side].items())}"
            for side in ("base", "other")
            if all_tables["settings"][side]
        ),
    ]


def _tables(all_tables: dict[str, Any]) -> list[Table]:
    tables = []
    for stated in all_tables["tables"]:
        title = (
            f"Table {stated['table']}: {stated['title']}" if stated["table"] else stated["title"]
        )
        rows = [
            [
                row["what"],
                _value(row, "base"),
                _value(row, "other"),
                percent(row["percent"]),
                _limits(row),
                row["verdict"] or "",
                row["paper"] or "—",
            ]
            for row in stated["rows"]
        ]
        tables.append(
            Table(
                title,
                ["", "base", "ours", "change", "95 % interval", "verdict", "paper"],
                rows,
                frozenset({0, 5, 6}),
            )
        )
    return tables


def _value(row: dict[str, Any], side: str) -> str:
    if row[side] is None:
        return (row["ours"] or "") if side == "other" else ""
    if row["unit"] == "B":
        return mebibytes(row[side])
    return f"{number(row[side])} {row['unit']}".rstrip()


def _limits(row: dict[str, Any]) -> str:
    if row["interval_percent"]:
        low, high = row["interval_percent"]
        return f"{percent(low)} … {percent(high)}"
    if row.get("interval"):
        low, high = ("never" if end is None else number(end) for end in row["interval"])
        return f"{low} … {high}"
    return ""
