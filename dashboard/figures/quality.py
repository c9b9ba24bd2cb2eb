"""May I trust it?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from probe.report.meter_tables import names, sensors
from probe.report.model import RateRow, Report
from probe.report.numbers import duration, energy
from probe.report.sentences import quality as whole
from probe.report.sentences import short

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
    caption = "; ".join([*(f"{what}: {how}" for what, how in whole(report)), *sensors(report)])
    if not report.final:
        caption = "How well the meters did is known when the run has ended."
    return Chart(
        caption[:1].upper() + caption[1:] + ("" if caption.endswith(".") else "."),
        None,
        COLUMNS,
        rows,
    )


_BUSY = {
    "sm_activity": "SM",
    "tensor_activity": "tensor cores",
    "dram_activity": "DRAM",
    "power_cap_time": "under the power cap",
}


def activity(rates: Sequence[RateRow]) -> Chart:
    """A row for each phase of each device, a column for what was busy, in % of peak or of time."""
    names = [name for name in _BUSY if any(row.quantity == name for row in rates)]
    columns = [
        Column("device", "device"),
        Column("phase", "phase"),
        *(Column(name, f"{_BUSY[name]} (%)") for name in names),
    ]
    by_quantity = {(row.device, row.phase, row.quantity): row for row in rates}
    rows: list[Sequence[Cell]] = []
    for device, phase in dict.fromkeys((row.device, row.phase) for row in rates):
        shares = [by_quantity.get((device, phase, name)) for name in names]
        if any(share is not None and share.value is not None for share in shares):
            rows.append([device, phase, *map(_share, shares)])
    capped = [
        (row.device, row.phase, row.value)
        for row in rates
        if row.quantity == "power_cap_time" and row.value
    ]
    device, phase, share = max(capped, key=lambda row: row[2], default=("", "", 0.0))
    caption = "Attributed like energy, with 95 % intervals; a dash cannot be told apart."
    if share > 0.01:
        caption += (
            f" The power cap held {short(device, 40)} back for {100 * share:.0f} % of "
            f"{short(phase, 40)}."
        )
    return Chart(caption, None, columns, rows)


def _share(row: RateRow | None) -> str:
    if row is None or row.value is None or row.interval is None:
        return "—"
    low, high = row.interval
    return f"{100 * row.value:.0f} ± {50 * (high - low):.0f}"


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
