"""Which phase burns it?"""

from __future__ import annotations

from collections.abc import Sequence

from probe.report.all_devices import METERED, MODELLED, DevicePhases, all_devices, in_threads
from probe.report.model import PhaseRow, Report
from probe.report.numbers import scaled
from probe.report.sentences import short

from ..chart_data import Cell, Chart, Column
from .phase_bars import bars
from .style import beside, figure, plain

_MAX_PHASES = 14  # the table has all
_AXIS = 56  # pixels for an axis with its title
COLUMNS = (
    Column("device", "device"),
    Column("phase", "phase"),
    Column("count", "count"),
    Column("time_s", "time (s)"),
    Column("energy_j", "energy (J)"),
    Column("low_j", "95 % from (J)"),
    Column("high_j", "to (J)"),
    Column("bound_low_j", "bound from (J)"),
    Column("bound_high_j", "to (J)"),
    Column("power_w", "power (W)"),
    Column("status", "status"),
    Column("provenance", "provenance"),
)


def phases(report: Report) -> Chart:
    """Energy of each phase per step with its interval, most first; time where there is none."""
    rows = [row for row in report.phases if row.time_s or row.energy_j or row.bounds_j]
    table: list[list[Cell]] = [
        [
            row.device,
            row.phase,
            row.count,
            row.time_s,
            row.energy_j,
            *(row.energy_j_interval or (None, None)),
            *(row.bounds_j or (None, None)),
            row.power_w,
            row.status,
            row.provenance,
        ]
        for row in rows
    ]
    if not rows:
        why = (
            "No phase was recorded."
            if report.final
            else "No phase has been seen yet: the first appears when a step has been recorded."
        )
        return Chart(why, None, COLUMNS, table)
    shown = all_devices(report)[0]
    joules = any(row.energy_j is not None for row in shown.phases)
    part, steps = _largest(shown.phases, joules), report.run.steps or 1
    largest = max(((_value(row, joules) or 0.0) for row in part), default=0.0)
    factor, prefix = scaled(largest / steps)
    if factor > 1 and not joules:
        factor, prefix = 1.0, ""
    unit = prefix + ("J" if joules else "s") + (" per step" if report.run.steps else "")
    height = 30 * len(part) + 16 + _AXIS
    traces, texts = bars(part, joules, steps, factor)
    drawn = figure(
        traces,
        height=max(190, height),
        yaxis={
            "domain": [_AXIS / height, 1.0],
            "autorange": "reversed",
            "tickvals": list(range(len(part))),
            "ticktext": [plain(row.phase, 28) for row in part],
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "automargin": True,
            "fixedrange": True,
        },
        xaxis={
            "title": {"text": f"{unit}, {plain(_name(shown), 16)}", "standoff": 4},
            "gridcolor": "#e3e3e6",
            "zerolinecolor": "#b9b9be",
            "rangemode": "tozero",
            "automargin": True,
            "fixedrange": True,
        },
        bargap=0.35,
        margin={"t": 4, **beside(texts)},
    )
    return Chart(_caption(report, shown, joules), drawn, COLUMNS, table)


def _name(shown: DevicePhases) -> str:
    number = len(shown.devices)
    return shown.devices[0] if number == 1 else f"{number} devices"


def _largest(rows: Sequence[PhaseRow], joules: bool) -> list[PhaseRow]:
    drawn = [row for row in rows if joules or row.time_share]
    return sorted(drawn, key=lambda row: -(_value(row, joules) or 0.0))[:_MAX_PHASES]


def _value(row: PhaseRow, joules: bool) -> float | None:
    if not joules:
        return row.time_s
    if row.energy_j is None and row.bounds_j:
        return sum(row.bounds_j) / 2
    return row.energy_j


def _caption(report: Report, shown: DevicePhases, joules: bool) -> str:
    sentences = ["Most first." if joules else "Longest first."]
    many = len(shown.devices) > 1
    if joules and shown.kind == MODELLED:
        sentences.append("Hatched bars: the processor's energy by a model, as there is no meter.")
    elif joules:
        if many:
            sentences.append("All devices together; the table has each.")
        if any(row.energy_j_interval for row in shown.phases):
            sentences.append("Whiskers are 95 % intervals.")
        refused = [
            short(row.phase, 40) for row in shown.phases if row.energy_j is None and row.bounds_j
        ]
        if refused:
            sentences.append(
                f"Open ranges ({', '.join(refused[:4])}) are bounds: the meter cannot separate "
                "these phases."
            )
    elif not report.final:
        sentences.append(
            "Time only: joules per phase appear when the meter, if there is one, has separated "
            "the phases."
        )
    elif any(table.kind in (METERED, MODELLED) for table in all_devices(report)):
        who = "threads" if in_threads(report) else "ranks"
        sentences.append(f"Time only: several {who} share the meters; the table has their energy.")
    else:
        sentences.append("Time only: no energy is known.")
    return " ".join(sentences)
