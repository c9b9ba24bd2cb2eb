"""``probe ls``: runs, newest first."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...errors import NothingToReport
from ...report.numbers import duration, energy, share
from ...report.sentences import short
from ...report.text_tables import aligned
from ...simulated_card import WORD
from ..arguments import add_format, add_place, place

if TYPE_CHECKING:
    from ...store.catalogue import Catalogue, RunSummary

SUMMARY = "runs, newest first"
EXAMPLES = (
    "probe ls",
    "probe ls --search 'tag:sweep host:node3 from:2026-11-01'",
    "probe ls --by tag",
    "probe ls --job 4711 --by day",
    "probe ls /data/runs --json",
)

_LONGEST_NAME = 50  # one long name would widen every row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_place(parser)
    parser.add_argument(
        "--search",
        metavar="TEXT",
        help="words that a run has; tag:…, name:…, host:…, status:…, config:…, note:…, job:…, "
        "date:…, from:…, to:…, -word",
    )
    parser.add_argument("--job", metavar="ID", help="runs of a batch job, or of an array of them")
    parser.add_argument("--account", help="runs of a batch system's account")
    parser.add_argument("--user", help="runs of a batch system's user")
    parser.add_argument("--all", action="store_true", help="archived runs, too")
    parser.add_argument(
        "--by",
        choices=("day", "name", "tag", "host", "job", "account", "user"),
        help="sums instead of the runs themselves",
    )
    add_format(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, NothingToReport."""
    from ...store.catalogue import Catalogue
    from ...store.catalogue.search import check_days, matching
    from ...store.layout import runs_dir

    check_days(options.search or "")
    directory = runs_dir(place(options))
    catalogue = Catalogue(directory)
    everything, unread = _rows(catalogue)
    there = len(everything)
    asked = [row for row in everything if _is_of_job(row, options)]
    archived = options.all or options.format == "json"
    rows = matching(asked, options.search or "", archived=archived)
    if unread:
        print(
            f"probe: killed runs whose energy is not read yet: {unread}; "
            "the next `probe ls` goes on",
            file=sys.stderr,
        )
    if options.by:
        return _print_sums(rows, options)
    if options.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    if not there:
        raise NothingToReport(
            f"no runs in {directory}: record one with `probe run -- python train.py`"
        )
    if not rows:
        what = "that is not archived"
        if options.search or options.job or options.account or options.user:
            what = f"that {options.search!r} means" if options.search else "of that batch job"
        raise NothingToReport(f"no run of {there} in {directory} {what} (--all: archived, too)")
    print(listing(rows))
    if left_out := sum(row["archived"] for row in everything) * (not options.all):
        print(f"({left_out} archived: --all shows them, too)")
    return 0


def _rows(catalogue: Catalogue) -> tuple[list[RunSummary], int]:
    """All rows as of now, and how many killed runs still lack their energy."""
    from ...store.catalogue import lacks_energy, with_live

    rows, unread = catalogue.rows(), 0
    if any(lacks_energy(row) and not catalogue.is_complete(row["id"]) for row in rows):
        from ...report.build.list_row import rows_with_energy  # loads what reports need

        rows, unread = rows_with_energy(catalogue)
    catalogue.keep(now=True)
    return [with_live(catalogue.directory, row) for row in rows], unread


def _is_of_job(row: RunSummary, options: argparse.Namespace) -> bool:
    """Whether a run belongs to the batch job, account and user that are asked for."""
    job, _, _ = row["job"].partition("_")
    return (
        (options.job is None or options.job in (row["job"], job))
        and options.account in (None, row["account"])
        and options.user in (None, row["user"])
    )


def _print_sums(rows: list[RunSummary], options: argparse.Namespace) -> int:
    """Sums by day, name, tag or host, and of all. Raises UsageError."""
    from ...analysis.carbon_and_price import Tariffs
    from ...analysis.run_sums import SUM_HEAD, currency_of, sum_cells, worths
    from ...store.catalogue.totals import total, totals_by

    tariffs = Tariffs.given()
    worth, currency = worths(rows, tariffs), currency_of(tariffs)
    sums, all_runs = totals_by(rows, options.by, worth), total(rows, worth)
    if options.format == "json":
        answer = {
            options.by: {key: asdict(of) for key, of in sums.items()},
            "all": asdict(all_runs),
        }
        print(json.dumps(answer | {"currency": currency}, indent=1))
        return 0
    body = [[key or f"no {options.by}", *sum_cells(of, currency)] for key, of in sums.items()]
    table = [[options.by, *SUM_HEAD], *body, ["all", *sum_cells(all_runs, currency)]]
    print("\n".join(aligned(table, [0])))
    return 0


def listing(rows: list[RunSummary]) -> str:
    """One line per run; below a group, indented, one for each of its trainings."""
    tagged = any(row["tags"] or row["archived"] for row in rows)
    hungry = any(row["hungriest"] for row in rows)
    head = ["id", "name", "status", "duration", "steps", "energy"]
    head += ["takes most"] * hungry + ["tags"] * tagged
    body = []
    for row in rows:
        trainings = row.get("trainings") or []
        several = f" ({len(trainings)} trainings)" if trainings else ""
        cells = _cells(row, row["id"], short(row["name"], _LONGEST_NAME) + several)
        cells += [_hungriest(row)] * hungry + [" ".join(_tags(row))] * tagged
        body.append(cells)
        for training in trainings:
            number = training["id"].rpartition("/")[2]
            cells = _cells(training, f"  /{number}", f"  {short(training['name'], _LONGEST_NAME)}")
            body.append(cells + [""] * (hungry + tagged))
    return "\n".join(aligned([head, *body], range(len(head))))


def _cells(row: RunSummary, id_: str, name: str) -> list[str]:
    return [
        id_,
        name,
        row["status"],
        duration(row["duration_s"]) if row["duration_s"] is not None else "",
        str(row["steps"]) if row["steps"] is not None else "",
        row["problem"] or _energy(row),
    ]


def _hungriest(row: RunSummary) -> str:
    takes = row["hungriest"]
    return "" if takes is None else f"{takes['phase']} {share(takes['share'])} of {takes['of']}"


def _tags(row: RunSummary) -> list[str]:
    return [*row["tags"], *["archived"] * row["archived"]]


def _energy(row: RunSummary) -> str:
    if row.get("simulated"):
        return WORD
    if row.get("shared"):
        return "shared" if row["energy_j"] is None else f"{energy(row['energy_j'])} + shared"
    if row["energy_j"] is not None:
        return energy(row["energy_j"])
    if row["modelled_energy_j"] is not None:
        return f"({energy(row['modelled_energy_j'])} modelled)"
    return "—"
