"""``probe report RUN``: the report of one run."""

from __future__ import annotations

import argparse
import contextlib
import math
from typing import TYPE_CHECKING

from ...errors import NothingToReport, UsageError
from ...small_process import stay_small
from ...spelling import meant_or_all
from ..arguments import add_format, add_output, add_run, seconds
from ..output import terminal, write

if TYPE_CHECKING:
    from ...report.group_model import GroupReport
    from ...report.model import Report

SUMMARY = "the report of one run"
EXAMPLES = (
    "probe report                        of the latest run",
    "probe report my-run --format html -o report.html",
    "probe report latest --from 60 --to 120",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run(parser)
    add_format(parser, "text", "json", "md", "csv", "parquet", "html", "pdf", others=True)
    parser.add_argument("--brief", action="store_true", help="five lines, for the log of a CI job")
    parser.add_argument(
        "--devices",
        action="store_true",
        help="a table for each device, each rank, each training of a group",
    )
    parser.add_argument(
        "--slurm", action="store_true", help="beside what sacct says of the job, and no more"
    )
    parser.add_argument(
        "--schema", action="store_true", help="the JSON Schema of --format json, and nothing else"
    )
    parser.add_argument(
        "--recompute", action="store_true", help="attribute energy anew from raw spans and samples"
    )
    parser.add_argument(
        "--intensity",
        metavar="G|CSV",
        help="g CO2e per kWh, or a CSV file of it over time (PROBE_INTENSITY)",
    )
    parser.add_argument(
        "--price",
        metavar="P|CSV",
        help="price per kWh, like '0.31 EUR', or a CSV file (PROBE_PRICE)",
    )
    parser.add_argument(
        "--from", dest="from_s", type=seconds, metavar="S", help="only what comes after this second"
    )
    parser.add_argument(
        "--to", dest="to_s", type=seconds, metavar="S", help="only what comes before it"
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError, NothingToReport."""
    stay_small()
    from ...recorder.collect import collect
    from ...report.build import report_of
    from ...report.formats import formats, text
    from ...report.model import Report
    from ...store.layout import runs_dir
    from ...store.runs import find_run
    from ...store.seals import await_end
    from ...store.trainings import group_of

    if options.schema:
        from ...report.serialization import SCHEMA_FILE

        return write(SCHEMA_FILE.read_text(encoding="utf-8").rstrip(), "json", options.output)
    if options.format not in formats():  # before anything is read
        close = meant_or_all(options.format, formats())
        raise UsageError(f"argument --format: no {options.format!r}{close}")
    if options.format != "text" and (options.brief or options.devices or options.slurm):
        raise UsageError("--brief, --devices and --slurm shape the text: leave --format out")
    part_s = None
    if options.from_s is not None or options.to_s is not None:
        part_s = options.from_s or 0.0, math.inf if options.to_s is None else options.to_s
    run = await_end(find_run(options.run, runs_dir(options.dir)))
    with contextlib.suppress(OSError):  # of another user: its rings stay where they are
        collect(group_of(run))
    report = report_of(
        run,
        recompute=options.recompute,
        part_s=part_s,
        intensity=options.intensity,
        price=options.price,
    )
    if isinstance(report, Report) and not report.sources and not report.phases:
        raise NothingToReport(
            f"{report.run.id} holds nothing yet: it was {report.run.status} after "
            f"{report.run.duration_s:.1f} s, before any sample or edge"
        )
    if options.slurm:
        return write(_beside_slurm(report), options.format, options.output)
    if options.format != "text":
        return write(report.render(options.format), options.format, options.output)
    width, colour = terminal(to_file=options.output is not None)
    shape = text.Shape(
        width=width or text.Shape().width,
        colour=colour,
        devices=options.devices,
        short=options.brief,
    )
    return write(text.shaped(report, shape), options.format, options.output)


def _beside_slurm(report: Report | GroupReport) -> str:
    """A run beside its job's account. Raises UsageError."""
    from ...report.group_model import GroupReport
    from ..slurm_accounting import slurm_lines

    if isinstance(report, GroupReport):
        raise UsageError(f"{report.group.id} is a group: name one of its trainings, as latest/1")
    return "\n".join(slurm_lines(report))
