"""Which phase burns it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from probe.report.sentences import short

from ..chart_data import MODELLED, Chart, Column, Overview, PhaseRow, with_known_phases
from .phase_bars import bars
from .phase_totals import largest_phase, measured, pooled
from .style import figure, plain

_MAX_PHASES = 14  # of a device; the table has all
_MAX_DEVICES = 4
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


def phases(run: Overview) -> Chart:
    """Energy of each phase per step with its interval, most first; time where there is none."""
    rows = [row for row in run.phases if row.time_s or row.energy_j or row.bounds_j]
    table: list[list[Any]] = [
        [
            row.device,
            row.phase,
            row.count,
            row.time_s,
            row.energy_j,
            *(row.interval_j or (None, None)),
            *(row.bounds_j or (None, None)),
            row.power_w,
            row.status,
            row.provenance,
        ]
        for row in rows
    ]
    if not rows:
        why = (
            "No phase has been seen yet: the first appears when a step has been recorded."
            if run.live
            else "No phase was recorded."
        )
        return Chart(why, None, COLUMNS, table)
    apart = with_known_phases(rows)
    shared = len({row.device for row in rows}) - len({row.device for row in apart})
    rows = pooled(apart)
    devices = list(dict.fromkeys(row.device for row in rows))
    if any(measured(row) for row in rows):  # a model's devices are only in the table
        devices = [d for d in devices if any(r.device == d and measured(r) for r in rows)]
    with_joules = [
        d for d in devices if any(r.device == d and r.energy_j is not None for r in rows)
    ]
    shown = (with_joules or devices)[:_MAX_DEVICES]
    joules = bool(with_joules)
    steps = run.steps or 1
    unit = ("J" if joules else "s") + (" per step" if run.steps else "")
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    parts = [_largest(rows, device, joules) for device in shown]
    heights = [30 * len(part) + 16 for part in parts]
    height = sum(heights) + _AXIS * len(parts)
    top = 1.0
    for place, (device, part, part_height) in enumerate(zip(shown, parts, heights, strict=True), 1):
        key = "" if place == 1 else str(place)
        data += bars(part, joules, steps, key)
        layout[f"yaxis{key}"] = {
            "domain": [max(0.0, top - part_height / height), top],
            "autorange": "reversed",
            "tickvals": list(range(len(part))),
            "ticktext": [plain(row.phase, 28) for row in part],
            "anchor": f"x{key}",
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "automargin": True,
            "fixedrange": True,
        }
        layout[f"xaxis{key}"] = {
            "anchor": f"y{key}",
            "title": {"text": f"{plain(device, 24)}: {unit}", "standoff": 4},
            "gridcolor": "#e3e3e6",
            "zerolinecolor": "#b9b9be",
            "rangemode": "tozero",
            "automargin": True,
            "fixedrange": True,
        }
        top -= (part_height + _AXIS) / height
    drawn = figure(data, height=max(190, height), **layout)
    drawn["layout"]["bargap"] = 0.35
    drawn["layout"]["margin"] = {"l": 8, "r": 8, "t": 4, "b": 8}
    return Chart(_caption(run, rows, shown, joules, shared), drawn, COLUMNS, table)


def _largest(rows: Sequence[PhaseRow], device: str, joules: bool) -> list[PhaseRow]:
    of_device = [row for row in rows if row.device == device]
    return sorted(of_device, key=lambda row: -(_value(row, joules) or 0.0))[:_MAX_PHASES]


def _value(row: PhaseRow, joules: bool) -> float | None:
    if not joules:
        return row.time_s
    if row.energy_j is None and row.bounds_j:
        return sum(row.bounds_j) / 2
    return row.energy_j


def _caption(
    run: Overview, rows: Sequence[PhaseRow], shown: Sequence[str], joules: bool, shared: int
) -> str:
    largest = largest_phase(run)
    sentences = []
    if largest is not None:
        row, share, what = largest
        model = (
            " (by a model of the processor: no meter)"
            if (what == "energy" and row.provenance == MODELLED)
            else ""
        )
        sentences.append(
            f"{short(row.phase, 60)} takes most: {100 * share:.0f} % of the {what}{model}."
        )
    if joules:
        refused = list(
            dict.fromkeys(
                short(r.phase, 40)
                for r in rows
                if r.energy_j is None and r.bounds_j and r.device in shown
            )
        )
        if any(r.device.endswith("together") for r in rows):
            sentences.append("All GPUs together; the table has each.")
        if any(r.interval_j for r in rows):
            sentences.append("Whiskers are 95 % intervals.")
        if refused:
            sentences.append(
                f"Open ranges ({', '.join(refused[:4])}) are bounds of what cannot be told apart."
            )
        if any(r.provenance == MODELLED for r in rows if r.device in shown):
            sentences.append("Hatched bars are a model's.")
    elif run.live:
        sentences.append(
            "Time only: joules per phase appear once they can be told apart, if there is a meter."
        )
    elif shared:
        sentences.append(
            "Time only: several ranks share what meters or models tell; it stands in the table."
        )
    else:
        sentences.append("Time only: no energy is known.")
    more = len({r.device for r in rows}) - len(shown) + (shared if joules else 0)
    if more > 0:
        sentences.append(f"{more} more device{'s stand' if more > 1 else ' stands'} in the table.")
    return " ".join(sentences)
