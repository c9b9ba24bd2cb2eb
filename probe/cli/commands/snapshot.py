"""``probe snapshot RUN``: the page of a run, or of a comparison, as one HTML file."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ...small_process import stay_small
from ..arguments import RUNS, add_dir
from ..output import write

SUMMARY = "the dashboard's page of a run, or of a comparison, as one HTML file to send"
EXAMPLES = (
    "probe snapshot latest -o run.html",
    "probe snapshot plain bf16 -o gain.html        a comparison",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "runs", nargs="*", default=["latest"], metavar="RUN", help=f"{RUNS}; several are compared"
    )
    add_dir(parser)
    parser.add_argument(
        "--with-origin",
        action="store_true",
        help="with command, paths, host, user and configuration",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the file to write, like run.html"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    stay_small()
    from ...plugins import SERVICES, load

    if not options.output:
        raise UsageError("-o needs the name of a file, like run.html")
    return write(load(SERVICES, "snapshot")(options), "html", options.output)
