"""``probe compare BASE OTHER…``: what a change saved, in which phase, and how sure that is."""

from __future__ import annotations

import argparse
import itertools
import sys

from ...errors import UsageError
from ...small_process import stay_small
from ..arguments import RUNS, add_dir, add_format, add_output, percent
from ..output import terminal, write

SUMMARY = "what a change saved, in which phase, and how sure that is"
EXAMPLES = (
    "probe compare baseline faster       all runs of each name",
    'probe compare baseline faster bf16 --target "loss<=2.5"',
    "probe compare 20261124-1033 latest --format html -o gains.html",
    "probe compare wide narrow --same-task      another model that does the same job",
    "probe compare main pull-request --fail-if 'energy > +3 %'      exit code 3 if it is exceeded",
)
EXCEEDED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("base", metavar="BASE", help=f"runs before the change: {RUNS}")
    parser.add_argument(
        "others", nargs="+", metavar="OTHER", help="runs after the change, named in the same way"
    )
    add_dir(parser)
    add_format(parser, "text", "json", "md", "csv", "html")
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
    parser.add_argument(
        "--same-task",
        action="store_true",
        help="compare models that differ but do the same job, such as a pruned one, held to their "
        "quality",
    )
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="LIMIT",
        help="exit with 3 if the whole 95 %% interval is above it, like 'energy > +3 %%', "
        "'energy/sample > +3 %%', 'backward time > +10 %%'; may be given several times",
    )
    parser.add_argument(
        "--strict", action="store_true", help="with --fail-if: no evidence is exit code 3, too"
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    if options.strict and not options.fail_if:
        raise UsageError("--strict says how --fail-if judges: give a limit")
    from ...store.layout import runs_dir
    from ...store.runs import find_side

    place = runs_dir(options.dir)
    sides = [find_side(side, place, []) for side in (options.base, *options.others)]
    stay_small()  # from here on it takes a second of imports
    from ...compare import TOLERANCE, compare, formats
    from ...compare.fail_if import Outcome, judged, limit_of
    from ...compare.formats import text
    from ...store.seals import await_ends

    await_ends(itertools.chain(*sides))
    limits = [limit_of(limit) for limit in options.fail_if]
    report = compare(
        options.base,
        options.others,
        directory=options.dir,
        target=options.target,
        tolerance=TOLERANCE if options.quality is None else options.quality / 100,
        same_task=options.same_task,
    )
    judgements = [judged(limit, other) for limit in limits for other in report.comparisons]
    width, _ = terminal(to_file=options.output is not None)
    if options.format == "text" and width is not None:
        rendered = text.fitted(report, width)
    else:
        rendered = formats.render(report, options.format)
    write(rendered, options.format, options.output)
    for judgement in judgements:
        print(judgement.line(), file=sys.stderr)
    failing = {Outcome.EXCEEDED, Outcome.NO_EVIDENCE} if options.strict else {Outcome.EXCEEDED}
    return EXCEEDED if any(judgement.outcome in failing for judgement in judgements) else 0
