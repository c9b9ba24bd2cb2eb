"""The report for a terminal."""

from __future__ import annotations

from .. import rank_tables, sentences
from ..model import PhaseRow, RateRow, Report, SourceRow
from ..numbers import duration, energy, number
from ..text_tables import Table, aligned

_ORDER = [
    "startup",
    "data",
    "forward",
    "backward",
    "recompute",
    "communication",
    "optimizer",
    "inference",
    "eval",
    "checkpoint",
    "restart",
]
_LAST = ["other", "unresolved", "unattributed"]
_RATES = {
    "sm_activity": "SM",
    "tensor_activity": "tensor",
    "dram_activity": "DRAM",
    "power_cap_time": "power capped",
}


def render(report: Report) -> str:
    """One screen: what ran, what it used, phase by phase, how well it is known."""
    lines = [*_headline(report), ""]
    by_device: dict[str, list[PhaseRow]] = {}
    for row in report.phases:
        by_device.setdefault(row.device, []).append(row)
    for table in rank_tables.all_ranks(report):
        lines += [*table.lines(), ""]
    for device, rows in by_device.items():
        lines += [*_table(device, rows, report), ""]
        rates = [row for row in report.rates if row.device == device]
        if rates:
            lines += [*_activity(device, rates), ""]
    for table in rank_tables.tables(report):
        lines += [*table.lines(), ""]
    lines += _sources(report)
    lines += _quality(report)
    below = [line for line in report.warnings if line != report.run.note]
    if below:
        lines += ["", *(f"! {line}" for line in below)]
    return "\n".join(lines).rstrip()


def _headline(report: Report) -> list[str]:
    run, total = report.run, report.total
    what = f"{run.name or run.id} · {run.status}"
    if run.part_s:
        what += f" · from {number(run.part_s[0])} s to {number(run.part_s[1])} s"
    if run.ended_by:
        what += f" ({run.ended_by})"
    steps = f" · {sentences.steps(run)}" if run.steps else ""
    ranks = f" · {run.ranks} ranks" if run.ranks > 1 else ""
    lines = [f"{what} · {duration(run.duration_s)}{steps}{ranks} · {run.id}"]
    if run.note:
        lines.append(run.note)
    shared = any(source.shared for source in report.sources)
    if total.energy_j is not None and total.energy_j_interval is not None:
        low, high = total.energy_j_interval
        half = (high - low) / 2
        line = f"measured  {energy(total.energy_j, half)} ± {energy(half, half)}"
        lines.append("   ".join([line, *sentences.worth(total, report.cost)]))
    elif shared:
        lines.append("measured  with other trainings at the same time: the group has the energy")
    else:
        lines.append("measured  no energy meter")
    if total.modelled_energy_j is not None:
        line = f"modelled  {energy(total.modelled_energy_j)}"
        lines.append(
            "   ".join(
                [
                    line,
                    *sentences.worth(total, report.cost, modelled=True),
                    "a model of CPU and RAM, not in the measured energy",
                ]
            )
        )
    lines += _logged(report)
    labels = [
        label for label, tariff in (("carbon", report.carbon), ("cost", report.cost)) if tariff
    ]
    lines += [
        f"{label:10}{line}" for label, line in zip(labels, sentences.tariffs(report), strict=True)
    ]
    return lines


def _logged(report: Report) -> list[str]:
    """What `run.log` recorded: sums of counts, last values of the rest, joules per sample."""
    values = report.values
    if not values:
        return []
    shown = [
        f"{name} {value.sum:.0f}"
        if name in ("samples", "tokens")
        else f"{name} {number(value.last)}"
        for name, value in values.items()
    ]
    joules = report.total.energy_j
    for name, unit in (("samples", "sample"), ("tokens", "token")):
        if joules is not None and name in values and (number_of := values[name].sum):
            shown.append(f"{energy(joules / number_of)} per {unit}")
    return ["logged    " + ", ".join(shown)]


def _table(device: str, rows: list[PhaseRow], report: Report) -> list[str]:
    rows = sorted(rows, key=_place)
    total = sum(row.time_s for row in rows if row.phase != "unresolved") or 1.0
    head = ["phase", "count", "time", "share", "energy", "interval", "power", "how"]
    body = [_cells(row, total) for row in rows]
    if all(row.energy_j is None for row in rows):
        head, body = head[:4], [cells[:4] for cells in body]
    about = device
    if all(row.is_modelled for row in rows):
        about += " (modelled: no meter)"
    return Table(about, head, body, _text_columns(head)).lines()


def _cells(row: PhaseRow, total_s: float) -> list[str]:
    cells = sentences.phase_cells(row, total_s, for_terminal=True)
    if row.phase in _LAST[1:]:  # nothing enters these two
        cells[1] = ""
    return cells


def _text_columns(head: list[str]) -> frozenset[int]:
    """The first column and the last one; of four, the last one is aligned to the right too."""
    return frozenset({0, len(head) - 1} - {3})


def _activity(device: str, rows: list[RateRow]) -> list[str]:
    """A line per phase, a column per unit; a dash where it cannot be told apart."""
    names = [name for name in _RATES if any(row.quantity == name for row in rows)]
    by_phase = {(row.phase, row.quantity): row for row in rows}
    phases = sorted({row.phase: row for row in rows}.values(), key=_place)
    head = ["phase", *(_RATES[name] for name in names), "how"]
    body = []
    for phase in phases:
        cells = [_percent(by_phase.get((phase.phase, name))) for name in names]
        if any(cell != "—" for cell in cells):
            body.append([phase.phase, *cells, phase.provenance])
    return Table(f"{device} · share of peak, or of time", head, body, _text_columns(head)).lines()


def _percent(row: RateRow | None) -> str:
    if row is None or row.value is None or row.interval is None:
        return "—"
    low, high = row.interval
    half = 50 * (high - low)
    digits = 1 if half < 1 else 0
    return f"{100 * row.value:.{digits}f} ± {half:.{digits}f} %"


def _sources(report: Report) -> list[str]:
    if not report.sources:
        return []
    rows = [
        [
            source.device,
            source.provenance,
            source.method,
            energy(source.energy_j),
            f"every {duration(source.period_s)}" if source.period_s else "",
            f"{source.gaps} gaps" if source.gaps else "",
            _place_of(source),
        ]
        for source in report.sources
    ]
    lines = ["meters", *(f"  {line}" for line in aligned(rows, range(len(rows[0]))))]
    lines += [f"  {device} is {line}" for device, line in sentences.meter_notes(report)]
    return lines + [f"  {device}: {line}" for device, line in sentences.meters_off(report)]


def _place_of(source: SourceRow) -> str:
    if source.shared:
        return "shared: in the group's total"
    return "" if source.in_total or source.is_modelled else "not in the total"


def _quality(report: Report) -> list[str]:
    lines = []
    coverage = report.total.coverage
    if coverage is not None:
        lines.append(
            f"coverage  {100 * coverage:.1f} % of the run was metered; the rest is inferred"
        )
    overhead = report.overhead
    if overhead.share_of_step is not None:
        line = f"overhead  {100 * overhead.share_of_step:.2g} % of a step"
        recorder = report.recorder
        if recorder and recorder.wall_s:
            start_s = recorder.start_cpu_s or 0.0
            used = (recorder.cpu_s - start_s) / recorder.wall_s
            line += f"; the recorder used {100 * used:.1f} % of a core, "
            line += f"after {start_s:.1f} s of CPU to start" if start_s else "its start included"
        lines.append(line)
    return lines


def _place(row: PhaseRow | RateRow) -> tuple[int, str]:
    name = row.phase
    parent = name.partition("/")[0]  # forward/attention stands with forward
    if parent in _ORDER:
        return _ORDER.index(parent), name
    if name in _LAST:
        return 100 + _LAST.index(name), name
    return 50, name
