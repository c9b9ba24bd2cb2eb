"""``probe tables BASE OTHER``: the tables of the paper from your own runs."""

from __future__ import annotations

import argparse

from ...small_process import stay_small
from ..arguments import RUNS, add_dir, add_format, add_output, seconds
from ..output import terminal, write

SUMMARY = "the tables of the paper from your runs, each figure beside the paper's in its unit"
EXAMPLES = (
    "probe tables baseline paper",
    "probe tables baseline paper --ablation runs/ablation --format md -o tables.md",
)
DESCRIPTION = """\
The tables of *Systematic Training Compute Optimization for Large-Scale AI Models* from your
runs. Below each figure of yours are its 95 % interval (from two runs a side on) and the
paper's, in the same unit; what your runs do not have is "not measured".

  I     images: time (min), peak memory (GB), throughput (img/s), final accuracy (%), FLOPs
        utilisation (%, from the logged `mfu`); baseline, optimised, Δ, relative
  II    text: time (h), peak memory (GB), throughput (tok/s: log tokens, or put
        tokens_per_sample into the config), final perplexity
  III   components, one added after the other: time, memory, quality, % faster and % less
        memory than the baseline (--ablation, of `probe ablate --design cumulative`)
  IV    ranks: throughput and efficiency of both sides (name runs with several numbers of
        ranks; all other tables are then of the fewest that both sides have)
  and   error analysis by phase, architecture patterns by kind of module
        (watch(modules=True), on CUDA of forward only: time, joules, the peak of memory while a
        kind runs, and on CUDA what one forward of it keeps), equations (21) to (23), and what
        the paper lacks: energy per sample, energy-delay product, CO2e

Whether runs belong to I or II is decided by the name of their data, what they count and what
metric they logged; --table decides alone. The paper's figures are of its model, data and
hardware, whatever yours are; a table's title says what yours trained.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("base", metavar="BASE", help=f"runs of the baseline: {RUNS}")
    parser.add_argument(
        "other", metavar="OTHER", help="runs of the optimised side, named in the same way"
    )
    add_dir(parser)
    parser.add_argument("--target", metavar="METRIC>=VALUE", help="as of `probe compare`")
    parser.add_argument(
        "--table", choices=("I", "II"), metavar="I|II", help="which of the two these runs are"
    )
    parser.add_argument(
        "--also",
        nargs=2,
        metavar=("BASE", "OTHER"),
        help="runs of another model, for the other one of Tables I and II and its patterns",
    )
    parser.add_argument(
        "--ablation", metavar="DIR", help="of `probe ablate --design cumulative`, for Table III"
    )
    parser.add_argument(
        "--months",
        type=seconds,
        default=5.0,
        help="over which the gain was made, for the doubling time (5)",
    )
    add_format(parser, "text", "md", "json")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    from ...store.layout import runs_dir
    from ...store.runs import find_side

    place = runs_dir(options.dir)
    runs = find_side(options.base, place, []) + find_side(options.other, place, [])
    stay_small()  # from here on it takes a second of imports
    from ...compare.paper.tables import tables
    from ...compare.paper.text import WIDTH, md, text
    from ...report.serialization import to_json
    from ...store.seals import await_ends

    await_ends(runs)
    all_tables = tables(
        options.base,
        options.other,
        directory=options.dir,
        target=options.target,
        also=tuple(options.also) if options.also else None,
        table=options.table,
        ablation=options.ablation,
        months=options.months,
    )
    if options.format == "json":
        return write(to_json(all_tables), options.format, options.output)
    if options.format == "md":
        return write(md(all_tables), options.format, options.output)
    width, _ = terminal(to_file=options.output is not None)
    return write(text(all_tables, width or WIDTH), options.format, options.output)
