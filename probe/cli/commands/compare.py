"""``probe compare BASE OTHER…``: gains over a base, where, and how sure that is."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import add_dir, add_output, percent
from ..output import write

SUMMARY = "did it pay: gains over a base, where, and how sure that is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "base", metavar="BASE", help="an id, a name (all runs so named), or several with commas"
    )
    parser.add_argument("others", nargs="+", metavar="OTHER", help="the same")
    add_dir(parser)
    parser.add_argument("--format", default="text", help="text, json, md, csv or html")
    parser.add_argument(
        "--target",
        metavar="METRIC>=VALUE",
        help="compare what it took to get there (by default the runs' own target)",
    )
    parser.add_argument(
        "--quality",
        type=percent,
        default=None,
        metavar="PERCENT",
        help="how much worse the final quality may be (0.5)",
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...compare import TOLERANCE, compare, formats

    if options.format not in formats.formats():
        raise UsageError(
            f"no format {options.format!r} of a comparison: choose from "
            f"{', '.join(formats.formats())}"
        )
    comparison = compare(
        options.base,
        options.others,
        directory=options.dir,
        target=options.target,
        tolerance=TOLERANCE if options.quality is None else options.quality / 100,
    )
    return write(formats.render(comparison, options.format), options.format, options.output)
