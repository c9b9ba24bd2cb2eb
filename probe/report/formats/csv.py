"""The phases of a run as CSV (RFC 4180): a row per phase and device, base units, else empty.

Of a group: rows of what all used, of each meter and of each training, then the trainings' phases.
The column ``row`` says what a row is of; only rows of one kind may be added up.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..group_model import GroupInfo, GroupReport, MemberRow, SharedTime, TimeOutside
from ..model import Report, Totals
from ..usage_tables import CPU_CORES, RATES

COLUMNS = (
    "run",
    "name",
    "started",
    "duration_s",
    "device",
    "phase",
    "count",
    "time_s",
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "bounds_j_low",
    "bounds_j_high",
    "power_w",
    "status",
    "provenance",
    "memory_mean_bytes",
    "memory_peak_bytes",
    *RATES,
    "cpu_cores",
)


Cell = str | int | float | None

# Of a group, before those columns.
GROUP_COLUMNS = (
    "row",  # group, shared, rest, device, training, phase
    "member",  # number of the training: `probe report GROUP/NUMBER`
    "member_status",
    "ended_by",
    "steps",
    "modelled_energy_j",
    "co2e_g",
    "modelled_co2e_g",
    "cost",
    "modelled_cost",
    "in_total",  # the device's energy counts into the group's
    "shared",  # a device was used by several trainings at the same time: see the row `shared`
)


def render(report: Report | GroupReport) -> str:
    """A header and the rows of ``phases``; of a group, its own rows first."""
    return table(*content(report))


def content(report: Report | GroupReport) -> tuple[Sequence[str], Iterator[dict[str, Cell]]]:
    """The columns, and the rows below them."""
    if isinstance(report, GroupReport):
        return (*GROUP_COLUMNS, *COLUMNS), _group_rows(report)
    return COLUMNS, rows(report)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """A header and one line per row; what a row does not have is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        values: list[Cell] = [row.get(name) for name in columns]
        cells = [plain(value) if isinstance(value, str) else value for value in values]
        writer.writerow(cells)
    return text.getvalue().removesuffix("\r\n")


def rows(report: Report) -> Iterator[dict[str, Cell]]:
    """A row per phase and device under ``COLUMNS``, in their order."""
    run = report.run
    rates = {(row.device, row.phase, row.quantity): row.value for row in report.rates}
    processes = {row.device for row in report.rates if row.quantity == CPU_CORES}
    for row in report.phases:
        low, high = row.energy_j_interval or (None, None)
        least, most = row.bounds_j or (None, None)
        cells: dict[str, Cell] = {
            "run": run.id,
            "name": run.name,
            "started": run.started,
            "duration_s": run.duration_s,
            "device": row.device,
            "phase": row.phase,
            "count": row.count,
            "time_s": row.time_s,
            "energy_j": row.energy_j,
            "energy_j_low": low,
            "energy_j_high": high,
            "bounds_j_low": least,
            "bounds_j_high": most,
            "power_w": row.power_w,
            "status": str(row.status),
            "provenance": "simulated" if run.simulated else str(row.provenance),
            "memory_mean_bytes": row.memory_mean_bytes,
            "memory_peak_bytes": row.memory_peak_bytes,
            "cpu_cores": rates.get((_process(row.device, processes), row.phase, CPU_CORES)),
            **{name: rates.get((row.device, row.phase, name)) for name in RATES},
        }
        yield {name: cells[name] for name in COLUMNS}


def _group_rows(report: GroupReport) -> Iterator[dict[str, Cell]]:
    """What all used, shared and left; the meters; the trainings; their phases."""
    group = report.group
    total, steps = group.total, {"steps": group.steps}
    ending: dict[str, Cell] = {"member_status": group.status, "ended_by": group.ended_by}
    yield _group_row("group", group, total, group.duration_s) | ending | steps | _worth(total)
    if group.shared.trainings:
        yield _group_row("shared", group, group.shared, group.shared.duration_s)
    yield _group_row("rest", group, group.rest, group.rest.duration_s)
    for source in group.sources:
        yield {
            **_of(group),
            "row": "device",
            "device": source.device,
            "energy_j": source.energy_j,
            "provenance": str(source.provenance),
            "in_total": str(source.in_total).lower(),
        }
    for member, run in zip(group.members, report.runs, strict=True):
        yield {
            "row": "training",
            "member": member.number,
            "member_status": member.status,
            "ended_by": member.ended_by,
            "steps": member.steps,
            "run": member.id,
            "name": member.name,
            "started": run.run.started,
            "duration_s": member.duration_s,
            "shared": str(member.shared).lower(),
            **_energy(member),
            **_worth(run.total),
        }
    for member, run in zip(group.members, report.runs, strict=True):
        yield from ({"row": "phase", "member": member.number, **row} for row in rows(run))


def _of(group: GroupInfo) -> dict[str, Cell]:
    return {"run": group.id, "name": group.name, "started": group.started}


def _group_row(
    kind: str, group: GroupInfo, part: SharedTime | TimeOutside | Totals, seconds: float
) -> dict[str, Cell]:
    return {"row": kind, **_of(group), "duration_s": seconds, **_energy(part)}


def _energy(part: MemberRow | SharedTime | TimeOutside | Totals) -> dict[str, Cell]:
    return {"energy_j": part.energy_j, "modelled_energy_j": part.modelled_energy_j}


def _worth(total: Totals) -> dict[str, Cell]:
    low, high = total.energy_j_interval or (None, None)
    return {
        "energy_j_low": low,
        "energy_j_high": high,
        "co2e_g": total.co2e_g,
        "modelled_co2e_g": total.modelled_co2e_g,
        "cost": total.cost,
        "modelled_cost": total.modelled_cost,
    }


def _process(device: str, processes: Collection[str]) -> str:
    """The process whose CPU time goes with a device's row: its rank's, where that is clear."""
    return device if len(processes) != 1 else next(iter(processes))


def plain(value: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
