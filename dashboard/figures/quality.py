"""May I trust it?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from probe.report.meter_tables import names, sensors
from probe.report.model import Report
from probe.report.numbers import duration, energy
from probe.report.sentences import quality as whole

from ..chart_data import Cell, Chart, Column

COLUMNS = (
    Column("device", "device"),
    Column("kind", "kind"),
    Column("method", "by"),
    Column("energy", "energy"),
    Column("period", "an update every"),
    Column("gaps", "missed readings"),
    Column("note", "remark"),
)


def quality(report: Report) -> Chart:
    """A row for each meter, as a table without a figure."""
    rows: list[Sequence[Cell]] = []
    for source in report.sources:
        counted = (
            "counts into the total"
            if source.in_total
            else ("never added to what was measured" if source.is_modelled else "beside the total")
        )
        note = f"{counted}; {source.note}" if source.note else counted
        rows.append(
            [
                source.device,
                source.provenance,
                source.method,
                energy(source.energy_j),
                duration(source.period_s) if source.period_s else "—",
                source.gaps,
                note,
            ]
        )
    said = [f"{what}: {how}" for what, how in whole(report)]
    caption = "; ".join([*said, *sensors(report.sources)])
    if not report.final:
        caption = "How well the meters did is known when the run has ended."
    return Chart(
        caption[:1].upper() + caption[1:] + ("" if caption.endswith(".") else "."),
        None,
        COLUMNS,
        rows,
    )


def absent(report: Report) -> list[tuple[str, str, str | None]]:
    """(what, reason, command that fixes it) of each quantity that could not be measured."""
    alike: dict[tuple[str, str, str | None], list[str]] = {}
    for row in report.absent:
        device, what = _split(row.what)
        alike.setdefault((what, row.reason, row.remedy), []).append(device)
    return [
        (f"{what} of {names(devices)}" if any(devices) else what, why, remedy)
        for (what, why, remedy), devices in alike.items()
    ]


def _split(what: str) -> tuple[str, str]:
    """``GPU 3 power samples`` as the device and what is missing there."""
    match = re.fullmatch(r"(GPU \d+) (.+)", what)
    return (match[1], match[2]) if match else ("", what)
