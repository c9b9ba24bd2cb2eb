"""``probe compare BASE OTHER…``: what a change saved, in which phase, and how sure that is."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import add_dir, add_output, percent
from ..output import terminal, write

SUMMARY = "what a change saved, in which phase, and how sure that is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "base",
        metavar="BASE",
        help="runs before the change: an id, a name (all its runs), or several with commas; of a "
        "name that holds commas the longest that a run has is taken",
    )
    parser.add_argument(
        "others", nargs="+", metavar="OTHER", help="runs after the change, named in the same way"
    )
    add_dir(parser)
    parser.add_argument("--format", default="text", help="text, json, md, csv or html")
    parser.add_argument(
        "--target",
        metavar="METRIC>=VALUE",
        help="compare what it took to reach it (by default the target that the runs were given)",
    )
    parser.add_argument(
        "--quality",
        type=percent,
        default=None,
        metavar="PERCENT",
        help="how much worse the final quality may be, in percent (default 0.5)",
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...compare import TOLERANCE, compare, formats
    from ...compare.formats import text

    if options.format not in formats.formats():
        raise UsageError(
            f"no format {options.format!r} of a comparison: choose from "
            f"{', '.join(formats.formats())}"
        )
    report = compare(
        options.base,
        options.others,
        directory=options.dir,
        target=options.target,
        tolerance=TOLERANCE if options.quality is None else options.quality / 100,
    )
    width, _ = terminal(to_file=options.output is not None)
    if options.format == "text" and width is not None:
        return write(text.fitted(report, width), options.format, options.output)
    return write(formats.render(report, options.format), options.format, options.output)
