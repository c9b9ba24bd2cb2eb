"""May I trust it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from probe.report.digits import duration, energy

from ..nouns import Chart, Column, Overview

COLUMNS = (Column("device", "device"), Column("kind", "kind"), Column("method", "by"),
           Column("energy", "energy"), Column("period", "an update every"),
           Column("gaps", "gaps"), Column("note", "remark"))


def quality(run: Overview) -> Chart:
    """A row for each meter; no picture says it better."""
    rows: list[Sequence[Any]] = []
    for source in run.sources:
        counted = "counts into the total" if source["in_total"] else (
            "never added to what was measured" if source["provenance"] == "modelled"
            else "beside the total")
        note = f"{counted}; {source['note']}" if source.get("note") else counted
        rows.append([source["device"], source["provenance"], source["method"],
                     energy(source["energy_j"]),
                     duration(source["period_s"]) if source["period_s"] else "—",
                     source["gaps"], note])
    told = "; ".join(f"{what}: {how}" for what, how in run.quality if not what.startswith(
        tuple(str(source["device"]) for source in run.sources)))
    if run.live:
        told = "Figures of the meters appear when the run has ended."
    return Chart(told[:1].upper() + told[1:] + ("" if told.endswith(".") else "."), None, COLUMNS,
                 rows)


def absent(run: Overview) -> list[tuple[str, str, str | None]]:
    """(what, why not, the command that mends it) of what could not be measured."""
    return [(str(one.get("what", "")), str(one.get("reason", "")), one.get("remedy"))
            for one in run.absent]
