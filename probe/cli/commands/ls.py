"""``probe ls``: runs, newest first."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from ...errors import NothingToReport
from ...report.numbers import duration, energy
from ...report.text_tables import aligned
from ...simulated_card import WORD
from ..arguments import add_format, add_place, place

if TYPE_CHECKING:
    from ...store.catalogue import RunSummary

SUMMARY = "runs, newest first"
EXAMPLES = ("probe ls", "probe ls /data/runs --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_place(parser)
    add_format(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, NothingToReport."""
    from ...store.catalogue import summaries
    from ...store.layout import runs_dir

    directory = runs_dir(place(options))
    rows = summaries(directory)
    if options.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    if not rows:
        raise NothingToReport(
            f"no runs in {directory}: record one with `probe run -- python train.py`"
        )
    print(listing(rows))
    return 0


def listing(rows: list[RunSummary]) -> str:
    """One line per run; below a group, indented, one for each of its trainings."""
    head = ["id", "name", "status", "duration", "steps", "energy"]
    body = []
    for row in rows:
        trainings = row.get("trainings") or []
        several = f" ({len(trainings)} trainings)" if trainings else ""
        body.append(_cells(row, row["id"], row["name"] + several))
        for training in trainings:
            number = training["id"].rpartition("/")[2]
            body.append(_cells(training, f"  /{number}", f"  {training['name']}"))
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
