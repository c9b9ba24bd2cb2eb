"""``probe diff A B``: what two runs were made with, where it differs."""

from __future__ import annotations

import argparse

from ..arguments import RUN, add_dir, add_format, add_output
from ..output import terminal, write

SUMMARY = "why two runs may differ: code, packages, torch, environment, config, data, machine"
EXAMPLES = ("probe diff before after", "probe diff latest 20261124-1033 --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("first", metavar="A", help=RUN)
    parser.add_argument("second", metavar="B", help="the same")
    add_dir(parser)
    add_format(parser, "text", "json")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...compare.run_differences import WIDTH, run_differences, text
    from ...report.serialization import to_json
    from ...store.layout import runs_dir
    from ...store.runs import find_run
    from ...store.seals import await_end

    where = runs_dir(options.dir)
    sides = (await_end(find_run(side, where)) for side in (options.first, options.second))
    result = run_differences(*sides)
    if options.format == "json":
        return write(to_json(result), options.format, options.output)
    width, _ = terminal(to_file=options.output is not None)
    return write(text(result, width or WIDTH), options.format, options.output)
