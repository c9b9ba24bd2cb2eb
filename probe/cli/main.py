"""The command ``probe``. Exit codes: 0; 1 bad input, one clear line; 2 nothing to report."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..errors import NothingToReport, ProbeError, UsageError


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
    except ProbeError as error:
        print(f"probe: {error}", file=sys.stderr)
        code = error.exit_code
    except BrokenPipeError:
        # `probe ls | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    if code < 0:
        _die_of(-code)
    sys.exit(code)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds")
    return value


def _share(text: str) -> float:
    value = _seconds(text)
    if value > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share in percent")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="probe", description="Which phase of your training burns the energy?")
    parser.add_argument("--version", action="version", version=f"phasewatt {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    run = commands.add_parser(
        "run",
        help="watch a script without touching it",
        usage="probe run [--dir D] [--name N] [--quiet] -- COMMAND …",
    )
    run.add_argument("--dir", help="where runs are kept (./runs)")
    run.add_argument("--name", help="the run's name")
    run.add_argument("--quiet", action="store_true", help="do not print the report at the end")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND …")
    ls = commands.add_parser("ls", help="runs, newest first")
    ls.add_argument("dir", nargs="?", help="where runs are kept (./runs)")
    ls.add_argument("--dir", dest="dir_option", help=argparse.SUPPRESS)
    ls.add_argument("--json", action="store_true")
    merge = commands.add_parser(
        "merge", help="join what the hosts of one job wrote apart into the run of rank 0's host"
    )
    merge.add_argument("runs", nargs="+", metavar="DIR", help="directories of runs, rank 0's too")
    report = commands.add_parser("report", help="the report of one run")
    report.add_argument(
        "run", nargs="?", default="latest", help="a directory, an id prefix, a name or `latest`"
    )
    report.add_argument("--dir", help="where runs are kept (./runs)")
    report.add_argument(
        "--format", default="text", help="text, json, md, csv, parquet, html or pdf"
    )
    report.add_argument(
        "--recompute", action="store_true", help="attribute energy anew from raw spans and samples"
    )
    report.add_argument(
        "--intensity",
        metavar="G|CSV",
        help="g CO2e per kWh, or a CSV file of it over time (PROBE_INTENSITY)",
    )
    report.add_argument(
        "--price",
        metavar="P|CSV",
        help="price per kWh, like '0.31 EUR', or a CSV file (PROBE_PRICE)",
    )
    report.add_argument(
        "--from",
        dest="from_s",
        type=_seconds,
        metavar="S",
        help="only what comes after this second of the run",
    )
    report.add_argument(
        "--to", dest="to_s", type=_seconds, metavar="S", help="only what comes before it"
    )
    report.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")
    compare = commands.add_parser(
        "compare", help="did it pay: gains over a base, where, and how sure that is"
    )
    compare.add_argument(
        "base", metavar="BASE", help="an id, a name (all runs so named), or several with commas"
    )
    compare.add_argument("others", nargs="+", metavar="OTHER", help="likewise")
    compare.add_argument("--dir", help="where runs are kept (./runs)")
    compare.add_argument("--format", default="text", help="text, json, md, csv or html")
    compare.add_argument(
        "--target",
        metavar="METRIC>=VALUE",
        help="compare what it took to get there (by default the runs' own target)",
    )
    compare.add_argument(
        "--quality",
        type=_share,
        default=None,
        metavar="PERCENT",
        help="how much worse the final quality may be (0.5)",
    )
    compare.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")
    tables = commands.add_parser(
        "tables", help="the tables of the paper from your runs, each beside the paper's figure"
    )
    tables.add_argument("base", metavar="BASE", help="as of `probe compare`")
    tables.add_argument("other", metavar="OTHER", help="likewise")
    tables.add_argument("--dir", help="where runs are kept (./runs)")
    tables.add_argument("--target", metavar="METRIC>=VALUE", help="as of `probe compare`")
    tables.add_argument("--ablation", metavar="DIR", help="of `probe ablate`, for Table III")
    tables.add_argument(
        "--months",
        type=_seconds,
        default=5.0,
        help="over which the gain was made, for the doubling time (5)",
    )
    tables.add_argument("--format", default="text", help="text, md or json")
    tables.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")
    advise = commands.add_parser(
        "advise", help="what to try next on a run, and what it could gain at most"
    )
    advise.add_argument(
        "run", nargs="?", default="latest", help="a directory, an id prefix, a name or `latest`"
    )
    advise.add_argument("--dir", help="where runs are kept (./runs)")
    advise.add_argument("--json", action="store_true")
    ablate = commands.add_parser(
        "ablate",
        help="train with and without each technique: which one made the gain",
        usage="probe ablate --techniques A,B,C [--design D] [--blocks N] [--dir D] "
        "-- python train.py --stack {stack} --seed {seed}",
    )
    ablate.add_argument("--techniques", metavar="A,B,C", help="in the order of adding them")
    ablate.add_argument(
        "--design", default="cumulative", help="cumulative, leave-one-out or shapley"
    )
    ablate.add_argument("--blocks", type=int, default=3, help="how often each is trained (3)")
    ablate.add_argument("--dir", help="where it is kept, and gone on with (./runs/ablation)")
    ablate.add_argument("--json", action="store_true")
    ablate.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND …")
    export = commands.add_parser("export", help="hand a run on: Prometheus, CodeCarbon, traces, …")
    export.add_argument(
        "run", nargs="?", default="latest", help="a directory, an id prefix, a name or `latest`"
    )
    export.add_argument("--to", metavar="NAME", help="where to; without it all names are shown")
    export.add_argument("--dir", help="where runs are kept (./runs)")
    export.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option of the exporter; may be repeated",
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write there")
    serve = commands.add_parser("serve", help="Prometheus endpoint of all live runs")
    serve.add_argument("dir", nargs="?", help="where runs are kept (./runs)")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=9400)
    serve.add_argument("--token", help="what others must send as a bearer token (PROBE_TOKEN)")
    serve.add_argument("--otlp", metavar="URL", help="send them to an OpenTelemetry collector, too")
    serve.add_argument("--cert", metavar="FILE", help="certificate for TLS")
    serve.add_argument("--key", metavar="FILE", help="its key")
    dashboard = commands.add_parser(
        "dashboard", help="see runs live, which phase burns the energy, what paid"
    )
    dashboard.add_argument("dir", nargs="?", help="where runs are kept (./runs)")
    dashboard.add_argument("--host", default="127.0.0.1")
    dashboard.add_argument("--port", type=int, default=8050)
    dashboard.add_argument("--token", help="what others must know to look (PROBE_TOKEN)")
    dashboard.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which a proxy calls this server; may be repeated",
    )
    dashboard.add_argument(
        "--base-path", default="/", metavar="PATH", help="below which a proxy shows it"
    )
    dashboard.add_argument(
        "--idle",
        type=_seconds,
        default=None,
        metavar="S",
        help="end by itself when nothing goes on and nobody looks for so long",
    )
    dashboard.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    calibrate = commands.add_parser(
        "calibrate", help="find out how this machine's GPUs show power; later runs use it"
    )
    calibrate.add_argument(
        "--seconds",
        type=_seconds,
        default=None,
        metavar="S",
        help="how long each GPU is kept busy and idle by turns (20)",
    )
    doctor = commands.add_parser("doctor", help="what was found, what is missing, what mends it")
    doctor.add_argument("--json", action="store_true")
    return parser


def _dispatch(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "run":
        from ..launcher.launch import run_command

        words = options.words[1:] if options.words[:1] == ["--"] else options.words
        return run_command(words, directory=options.dir, name=options.name, quiet=options.quiet)
    if options.command == "ls":
        return _ls(options.dir or options.dir_option, options.json)
    if options.command == "merge":
        return _merge(options.runs)
    if options.command == "report":
        return _report(options)
    if options.command == "compare":
        return _compare(options)
    if options.command == "tables":
        return _tables(options)
    if options.command == "advise":
        return _advise(options)
    if options.command in ("ablate", "dashboard", "export", "serve"):
        from ..plugins import SERVICES, load

        return int(load(SERVICES, options.command)(options))
    if options.command == "calibrate":
        return _calibrate(options.seconds)
    from .doctor import examine, render

    found = examine()
    print(json.dumps(found, indent=1) if options.json else render(found))
    return 0


def _calibrate(seconds: float | None) -> int:
    from ..calibrate import SECONDS, calibrate, render

    if seconds is not None and seconds < 5:
        raise UsageError("--seconds: at least 5, or there is nothing to see")
    try:
        for found, path in calibrate(SECONDS if seconds is None else seconds):
            print(render(found, path))
    except OSError as error:
        raise UsageError(f"the calibration cannot be kept: {error}") from None
    return 0


def _ls(directory: str | None, as_json: bool) -> int:
    from ..store.catalogue import summaries
    from ..store.layout import runs_dir
    from .list_text import listing

    where = runs_dir(directory)
    if directory and not where.is_dir():
        raise UsageError(f"there is no directory {where}")
    rows = summaries(where)
    if as_json:
        print(json.dumps(rows, indent=1))
        return 0
    if not rows:
        raise NothingToReport(f"no runs in {where}: record one with `probe run -- python train.py`")
    print(listing(rows))
    return 0


def _merge(runs: Sequence[str]) -> int:
    from ..store.merge import merge

    whole, joined, known = merge([Path(run).expanduser().absolute() for run in runs])
    if joined:
        print(f"joined: {', '.join(joined)}")
    if known:
        print(f"already there: {', '.join(known)}")
    print(whole)
    return 0


def _report(options: argparse.Namespace) -> int:
    from ..report.build import Report
    from ..report.formats import formats
    from ..store.layout import runs_dir
    from ..store.runs import find_run

    format_ = options.format
    if format_ not in formats():  # before anything is read
        known = ", ".join(formats())
        raise UsageError(f"no report format {format_!r}: choose from {known}")
    part_s = None
    if options.from_s is not None or options.to_s is not None:
        part_s = options.from_s or 0.0, math.inf if options.to_s is None else options.to_s
    report = Report.of(
        find_run(options.run, runs_dir(options.dir)),
        recompute=options.recompute,
        part_s=part_s,
        intensity=options.intensity,
        price=options.price,
    )
    if not report.data["sources"] and not report.data["phases"]:
        raise NothingToReport(
            f"{report.data['run']['id']} holds nothing yet: it was {report.data['run']['status']} "
            f"after {report.data['run']['duration_s']:.1f} s, before any sample or edge"
        )
    return _write(report.render(format_), format_, options.output)


def _compare(options: argparse.Namespace) -> int:
    from ..compare import TOLERANCE, compare, formats

    if options.format not in formats.formats():
        raise UsageError(
            f"no format {options.format!r} of a comparison: choose from "
            f"{', '.join(formats.formats())}"
        )
    found = compare(
        options.base,
        options.others,
        directory=options.dir,
        target=options.target,
        tolerance=TOLERANCE if options.quality is None else options.quality / 100,
    )
    return _write(formats.render(found, options.format), options.format, options.output)


def _tables(options: argparse.Namespace) -> int:
    from ..compare.paper.tables import tables
    from . import paper_text

    if options.format not in ("text", "md", "json"):
        raise UsageError(f"no format {options.format!r} of the tables: text, md or json")
    found = tables(
        options.base,
        options.other,
        directory=options.dir,
        target=options.target,
        ablation=options.ablation,
        months=options.months,
    )
    if options.format == "json":
        rendered = json.dumps(found, indent=1, allow_nan=False)
    else:
        rendered = paper_text.text(found) if options.format == "text" else paper_text.md(found)
    return _write(rendered, options.format, options.output)


def _advise(options: argparse.Namespace) -> int:
    from ..compare.advise import advise
    from ..store.layout import runs_dir
    from ..store.runs import find_run
    from .advise_text import advice

    found = advise(find_run(options.run, runs_dir(options.dir)))
    print(json.dumps(found, indent=1, allow_nan=False) if options.json else advice(found))
    return 0


def _write(rendered: str | bytes, format_: str, output: str | None) -> int:
    content = rendered if isinstance(rendered, bytes) else f"{rendered}\n".encode()
    if output is not None:
        from ..store.files import write_bytes

        try:
            write_bytes(Path(output), content)
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from None
    elif isinstance(rendered, bytes) and sys.stdout.isatty():
        raise UsageError(f"{format_} is no text: write it to a file with -o")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return 0


def _die_of(number: int) -> None:
    """End by the signal that ended the command, so that a shell sees the same."""
    with contextlib.suppress(OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(128 + number)
