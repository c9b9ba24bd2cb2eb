"""What only a reading of a whole run tells its row in the list of runs.

That is the phase that takes most. A recorder writes energy and steps into run.json at the end; of a
run whose recorder was killed too, they are known only from the samples and edges on disk.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from ...store.catalogue import Catalogue, Hungriest, lacks_energy
from ..answer import largest
from .report import build

if TYPE_CHECKING:
    from ...store.catalogue import RunSummary

_MOST_S = 5.0  # that a list may wait for runs that were killed


class ReportedFields(TypedDict):
    """Fields of :class:`~probe.store.catalogue.RunSummary`, as the run's report has them."""

    energy_j: float | None
    modelled_energy_j: float | None
    co2e_g: float | None
    modelled_co2e_g: float | None
    steps: int
    hungriest: Hungriest | None


def lacks_something(row: RunSummary) -> bool:
    """Whether a reading of the whole run, which has ended, can add to the row."""
    settled = row["problem"] is None and row["status"] != "running"
    has_phases = bool(row["steps"]) or row["status"] == "killed"
    return settled and row["hungriest"] is None and not row.get("trainings") and has_phases


def reported_fields(run: Path) -> ReportedFields:
    """Read the run's report. Takes a third of a second or more.

    Raises:
        StoreError: it cannot be read.
    """
    report = build(run, with_rates=False)
    total, takes = report.total, largest(report)
    simulated = report.run.simulated
    return {
        "energy_j": None if simulated else total.energy_j,
        "modelled_energy_j": None if simulated else total.modelled_energy_j,
        "co2e_g": None if simulated else total.co2e_g,
        "modelled_co2e_g": None if simulated else total.modelled_co2e_g,
        "steps": report.run.steps,
        "hungriest": None
        if takes is None
        else Hungriest(phase=takes[0], share=takes[1], of=takes[2]),
    }


def completed(row: RunSummary, reported: ReportedFields) -> RunSummary:
    """The row with what its report says; what run.json says stays."""
    if row["energy_j"] is None and row["modelled_energy_j"] is None:
        return cast("RunSummary", {**row, **reported})
    return {**row, "hungriest": reported["hungriest"]}


def rows_with_energy(catalogue: Catalogue) -> tuple[list[RunSummary], int]:
    """The rows of a directory, killed runs with their energy, and how many still lack it.

    Reads the newest first and stops after five seconds. What was read is kept: the next call goes
    on where this one stopped.
    """
    end_s = time.monotonic() + _MOST_S
    rows = catalogue.rows()
    left = 0
    for place, row in enumerate(rows):
        if not lacks_energy(row) or catalogue.is_complete(row["id"]):
            continue
        if time.monotonic() > end_s:
            left += 1
            continue
        # A damaged run: its own report says what is wrong with it.
        with contextlib.suppress(Exception):
            rows[place] = completed(row, reported_fields(catalogue.directory / row["id"]))
        catalogue.complete(row["id"], rows[place])
    return rows, left
