"""``probe export RUN --to NAME``: write a run for another tool."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import add_run

SUMMARY = "export a run to Prometheus, CodeCarbon, traces, …"
EXAMPLES = (
    "probe export                        the names of the exporters",
    "probe export latest --to codecarbon -o emissions.csv",
    "probe export latest --to sci --set embodied_g=1200",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run(parser)
    parser.set_defaults(run=None)  # without any argument the exporters are listed
    parser.add_argument("--to", metavar="NAME", help="where to; without it all names are shown")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option of the exporter; may be repeated",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write there")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises ProbeError."""
    from ...plugins import SERVICES, load

    if options.to is None and (options.run or options.output or options.set):
        raise UsageError("say where: --to NAME (`probe export` shows the names)")
    options.run = options.run or "latest"
    return int(load(SERVICES, "export")(options))
