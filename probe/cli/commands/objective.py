"""``probe objective RUN…``: the weighted cost of configurations, constraints, the Pareto front."""

from __future__ import annotations

import argparse
import json

from ..arguments import RUNS, add_dir, add_format, add_output
from ..output import terminal, write

SUMMARY = "weigh time, memory and energy of configurations, under constraints"
EXAMPLES = (
    "probe objective baseline faster --weights time=1,energy=2 --max memory=6GiB",
    "probe objective a b c --front time,energy --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help=f"a configuration each, the base first: {RUNS}"
    )
    add_dir(parser)
    parser.add_argument(
        "--weights",
        metavar="NAME=W,…",
        help="of time, memory, energy, time_per_sample, energy_per_sample (1 each of the first "
        "three that are known)",
    )
    parser.add_argument(
        "--max",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a constraint: memory=6GiB, loss=2.5, gradient_norm=0.1; may be repeated",
    )
    parser.add_argument(
        "--min", action="append", default=[], metavar="NAME=VALUE", help="accuracy=0.8"
    )
    parser.add_argument(
        "--front", metavar="NAME,…", help="quantities of the Pareto front (those with a weight)"
    )
    parser.add_argument(
        "--target",
        metavar="METRIC>=VALUE",
        help="count time and energy until it is reached (the target that the runs were given)",
    )
    add_format(parser, "text", "json")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError, NothingToReport."""
    from ...compare.objective import objective
    from ...compare.objective.quantities import front_of, limit_of, weights_of
    from ...compare.objective.text import render

    report = objective(
        options.runs,
        None if options.weights is None else weights_of(options.weights),
        [
            *(limit_of(text, upper=True) for text in options.max),
            *(limit_of(text, upper=False) for text in options.min),
        ],
        front_of(options.front or ""),
        directory=options.dir,
        target=options.target,
    )
    if options.format == "json":
        content = json.dumps(report.to_dict(), indent=1, allow_nan=False)
    else:
        width, _ = terminal(to_file=options.output is not None)
        content = render(report, width)
    return write(content, options.format, options.output)
