"""``probe objective RUN…``: the paper's objective, its constraints and the Pareto front."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from ..arguments import add_dir, add_output
from ..output import terminal, write

SUMMARY = "what configurations cost by weighted time, memory and energy, and which none beats"
DESCRIPTION = """\
Score configurations by eq. (1)-(3) of the paper: C = Σ weight × quantity / baseline's.

Each RUN is as of `probe compare`: a name stands for all runs so named, trained again, which gives
the intervals. The first one is the baseline. Energy is measured energy; of runs without a meter it
cannot be weighed. A limit is of time (s, min, h), memory (MiB, GiB), energy (J, kWh), gradient
(the norm of the loss's gradient, where the trainer logged it), or of any logged metric; of an
evaluated one (eval_accuracy) the short name will do.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the baseline, then others")
    parser.add_argument(
        "--weights", default="time=1,memory=1,energy=1", help="time=1,memory=1,energy=1"
    )
    parser.add_argument("--max", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--min", action="append", default=[], metavar="NAME=VALUE")
    add_dir(parser)
    parser.add_argument("--format", default="text", help="text or json")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...compare.objective.command_line import limits, weights
    from ...compare.objective.read_configurations import configurations
    from ...compare.objective.scores import objective
    from ...compare.objective.text import WIDTH, text
    from ...report.serialization import to_json

    if options.format not in ("text", "json"):
        raise UsageError(f"no format {options.format!r} of the objective: text or json")
    chosen, allowed = weights(options.weights), limits(options.max, options.min)
    result = objective(configurations(options.runs, options.dir), chosen, allowed)
    if options.format == "json":
        return write(to_json(result), options.format, options.output)
    width, _ = terminal(to_file=options.output is not None)
    return write(text(result, width or WIDTH), options.format, options.output)
