"""Tables of phases: all devices together, or one device."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Phase, Provenance, Status
from .all_devices import METERED, MODELLED, TIMED, DevicePhases, by_device, kind_of
from .model import PhaseRow, Report, SourceRow
from .numbers import duration, energy, energy_range, share, share_with_error, watts
from .text_tables import Table

STATUS = {Status.RESOLVED: "resolved", Status.WEAK: "weak", Status.NOT_IDENTIFIABLE: "bounds only"}
_HEAD = (
    "phase",
    "of energy",
    "energy",
    "95 % interval",
    "of time",
    "time",
    "count",
    "power",
    "how",
)
_MODELLED = ("phase", "of the model", "energy", "of time", "time", "count", "power")
_TIMED = ("phase", "of time", "time", "count")
_MOST_DIFFERENCES = 4
_ONE_PERCENT = 0.01


def together(phases: DevicePhases, report: Report) -> Table:
    """The phases of devices of one kind, with their sum."""
    if phases.kind == TIMED:
        return _timed(_title(phases, "time of "), phases.phases)
    if phases.kind == MODELLED:
        return _modelled(_title(phases, "by a model, no meter: "), phases, report)
    rows = [*phases.phases]
    rest_j = (report.total.energy_j or 0.0) - (phases.energy_j or 0.0)
    table = _metered(_title(phases, ""), rows)
    cells, marks = [*map(list, table.rows)], [*table.marks]
    total_j = phases.energy_j
    if phases.kind == METERED and report.total.energy_j is not None:
        total_j = report.total.energy_j
        if abs(rest_j) > 1e-9 * total_j:
            cells.append(["devices without phases", "", energy(rest_j), *[""] * 6])
            marks.append("")
    seconds = sum(row.time_s for row in rows if row.phase != Phase.UNRESOLVED)
    interval = report.total.energy_j_interval
    limits = "" if interval is None else energy_range(*interval)
    half_j = None if interval is None else (interval[1] - interval[0]) / 2
    cells.append(
        ["all", "100.0 %" if total_j else "", energy(total_j, half_j), limits, "100.0 %",
         duration(seconds), "", "", "measured"]
    )  # fmt: skip
    return Table(table.title, table.head, cells, table.text, table.optional, (*marks, "total"))


def of_device(device: str, rows: Sequence[PhaseRow]) -> Table:
    """The phases of one device."""
    kind = kind_of(rows)
    if kind == TIMED:
        return _timed(device, rows)
    if kind == MODELLED:
        body = [_modelled_cells(row, row.energy_share) for row in rows]
        return Table(f"{device}, by a model", _MODELLED, body, optional=(5, 6, 4))
    return _metered(device, rows)


def each_device(report: Report) -> list[Table]:
    """A table per device."""
    return [of_device(device, rows) for device, rows in by_device(report.phases).items()]


def _title(phases: DevicePhases, prefix: str) -> str:
    number = len(phases.devices)
    if number == 1:
        return prefix + phases.devices[0]
    if phases.kind == MODELLED:
        return prefix + ", ".join(phases.devices)
    if phases.kind == TIMED:
        return f"all {number} ranks, the mean of one"
    return f"{prefix}all {number} devices (time: the mean of one)"


def _metered(title: str, rows: Sequence[PhaseRow]) -> Table:
    return Table(
        title,
        _HEAD,
        [_cells(row) for row in rows],
        frozenset({0, 8}),
        optional=(6, 7, 5, 8, 4),
        marks=["" if row.energy_j is not None else "refused" for row in rows],
    )


def _timed(title: str, rows: Sequence[PhaseRow]) -> Table:
    body = [[row.phase, share(row.time_share), duration(row.time_s), _count(row)] for row in rows]
    return Table(title, _TIMED, body, optional=(3,))


def _cells(row: PhaseRow) -> list[str]:
    """A row under ``_HEAD``."""
    half_j = None
    if row.energy_j_interval is not None:
        half_j = (row.energy_j_interval[1] - row.energy_j_interval[0]) / 2
    limits = row.energy_j_interval or row.bounds_j
    return [
        row.phase,
        share(row.energy_share),
        energy(row.energy_j, half_j),
        energy_range(*limits) if limits else "",
        "" if row.time_share is None else share(row.time_share),
        "" if row.time_share is None else duration(row.time_s),
        _count(row),
        "" if row.power_w is None else watts(row.power_w),
        how(row),
    ]


def _count(row: PhaseRow) -> str:
    """How often the phase was entered; nothing enters the two that are no phase."""
    return "" if row.phase in (Phase.UNRESOLVED, Phase.UNATTRIBUTED) else str(row.count)


def how(row: PhaseRow) -> str:
    """How well a phase's energy is known, in a word or two."""
    if row.is_modelled:
        return "modelled"
    if row.provenance is Provenance.MEASURED and row.energy_j is not None:
        return "measured"
    return STATUS[row.status]


def _modelled(title: str, phases: DevicePhases, report: Report) -> Table:
    """Rows that add up to the modelled total: what has no phases has a row of its own."""
    constant = [
        (_constant(source), source.energy_j)
        for source in report.sources
        if source.is_modelled and source.device not in phases.devices and source.energy_j
    ]
    total_j = (phases.energy_j or 0.0) + sum(joules for _, joules in constant)
    body = [
        _modelled_cells(row, row.energy_j / total_j if row.energy_j and total_j else None)
        for row in phases.phases
    ]
    body += [[what, share(j / total_j), energy(j), *[""] * 4] for what, j in constant]
    body.append(["all", "100.0 %", energy(total_j), *[""] * 4])
    marks = ["modelled"] * (len(body) - 1)
    return Table(title, _MODELLED, body, optional=(5, 6, 4), marks=(*marks, "total"))


def _constant(source: SourceRow) -> str:
    name = source.device.rpartition("/")[2]
    return f"{name.upper() if name == 'ram' else source.device}, constant power"


def _modelled_cells(row: PhaseRow, part: float | None) -> list[str]:
    return [
        row.phase,
        share(part),
        energy(row.energy_j),
        share(row.time_share),
        duration(row.time_s),
        _count(row),
        "" if row.power_w is None else watts(row.power_w),
    ]


def differences(phases: DevicePhases, report: Report) -> list[str]:
    """Where a device's share of a phase differs from all devices' by more than both errors."""
    if len(phases.devices) < 2 or phases.kind != METERED:
        return []
    common = {row.phase: row for row in phases.phases}
    deviations = []
    for device, rows in by_device(report.phases).items():
        if device not in phases.devices:
            continue
        device_j = sum(row.energy_j or 0.0 for row in rows)
        for row in rows:
            shared = common[row.phase]
            if row.energy_share is None or shared.energy_share is None or row.is_modelled:
                continue
            half = _half(row, device_j) + _half(shared, phases.energy_j or 0.0)
            excess = abs(row.energy_share - shared.energy_share) - half
            if excess > _ONE_PERCENT:
                low_high = [limit / device_j for limit in row.energy_j_interval or (0.0, 0.0)]
                text = share_with_error(row.energy_share, low_high[0], low_high[1])
                deviations.append(
                    (excess, f"{device}: {row.phase} takes {text} of its energy, "
                     f"{share(shared.energy_share)} of all")
                )  # fmt: skip
    lines = [line for _, line in sorted(deviations, reverse=True)]
    more = len(lines) - _MOST_DIFFERENCES
    return lines[:_MOST_DIFFERENCES] + (
        [f"{more} more differences: --devices shows all"] if more > 0 else []
    )


def _half(row: PhaseRow, total_j: float) -> float:
    if row.energy_j_interval is None or not total_j:
        return 0.0
    return (row.energy_j_interval[1] - row.energy_j_interval[0]) / 2 / total_j
