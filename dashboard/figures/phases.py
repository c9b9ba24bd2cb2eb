"""Which phase burns it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from probe.report.numbers import duration, energy, interval, number
from probe.report.sentences import short

from ..chart_data import ESTIMATED, MODELLED, Chart, Column, Overview, PhaseRow, told_apart
from .style import colour, figure, listed, plain

_MOST = 14  # of a device; the table has all
_DEVICES = 4
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
    apart = told_apart(rows)
    shared = len({row.device for row in rows}) - len({row.device for row in apart})
    rows = pooled(apart)
    devices = list(dict.fromkeys(row.device for row in rows))
    if any(_measured(row) for row in rows):  # a model's stand in the table
        devices = [d for d in devices if any(r.device == d and _measured(r) for r in rows)]
    with_joules = [
        d for d in devices if any(r.device == d and r.energy_j is not None for r in rows)
    ]
    shown = (with_joules or devices)[:_DEVICES]
    joules = bool(with_joules)
    steps = run.steps or 1
    unit = ("J" if joules else "s") + (" per step" if run.steps else "")
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    parts = [_of(rows, device, joules) for device in shown]
    heights = [30 * len(mine) + 16 for mine in parts]
    whole = sum(heights) + _AXIS * len(parts)
    top = 1.0
    for place, (device, mine, height) in enumerate(zip(shown, parts, heights, strict=True), 1):
        key = "" if place == 1 else str(place)
        data += _bars(mine, joules, steps, key)
        layout[f"yaxis{key}"] = {
            "domain": [max(0.0, top - height / whole), top],
            "autorange": "reversed",
            "tickvals": list(range(len(mine))),
            "ticktext": [plain(row.phase, 28) for row in mine],
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
        top -= (height + _AXIS) / whole
    height = whole
    drawn = figure(data, height=max(190, height), **layout)
    drawn["layout"]["bargap"] = 0.35
    drawn["layout"]["margin"] = {"l": 8, "r": 8, "t": 4, "b": 8}
    return Chart(_caption(run, rows, shown, joules, shared), drawn, COLUMNS, table)


def _measured(row: PhaseRow) -> bool:
    return row.energy_j is not None and row.provenance != MODELLED


def pooled(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    """Several GPUs as one: energies add up, and so do their intervals, for their errors may be of
    one kind. A phase that is refused on one of them is refused on all together.
    """
    gpus = [row for row in rows if row.is_accelerator]
    devices = list(dict.fromkeys(row.device for row in gpus))
    if len(devices) < 2:
        return list(rows)
    name = f"{len(devices)} GPUs together"
    together = []
    for phase in dict.fromkeys(row.phase for row in gpus):
        mine = [row for row in gpus if row.phase == phase]
        known = all(row.energy_j is not None for row in mine)
        seconds = [row.time_s for row in mine if row.time_s is not None]
        spans = [row.interval_j for row in mine]
        limits = [row.interval_j or row.bounds_j or (row.energy_j, row.energy_j) for row in mine]
        together.append(
            PhaseRow(
                phase=phase,
                device=name,
                count=mine[0].count,
                time_s=sum(seconds) / len(seconds) if seconds else None,
                energy_j=sum(row.energy_j or 0.0 for row in mine) if known else None,
                interval_j=_added(spans) if known else None,
                bounds_j=None if known else _added(limits),
                power_w=None,
                status=mine[0].status,
                provenance=mine[0].provenance,
            )
        )
    rest = [row for row in rows if row not in gpus]
    return together + rest


def _added(limits: Sequence[Any]) -> tuple[float, float] | None:
    if any(one is None or one[0] is None for one in limits):
        return None
    return sum(one[0] for one in limits), sum(one[1] for one in limits)


def _of(rows: Sequence[PhaseRow], device: str, joules: bool) -> list[PhaseRow]:
    mine = [row for row in rows if row.device == device]
    return sorted(mine, key=lambda row: -(_value(row, joules) or 0.0))[:_MOST]


def _value(row: PhaseRow, joules: bool) -> float | None:
    if not joules:
        return row.time_s
    if row.energy_j is None and row.bounds_j:
        return sum(row.bounds_j) / 2
    return row.energy_j


def _bars(rows: Sequence[PhaseRow], joules: bool, steps: int, key: str) -> list[dict[str, Any]]:
    """Bars of what is known, open ranges of what is refused."""
    total = sum((row.energy_j if joules else row.time_s) or 0.0 for row in rows) or 1.0
    known = [
        (place, row)
        for place, row in enumerate(rows)
        if (row.energy_j if joules else row.time_s) is not None
    ]
    refused = [
        (place, row)
        for place, row in enumerate(rows)
        if joules and row.energy_j is None and row.bounds_j
    ]
    axes = {"xaxis": f"x{key}", "yaxis": f"y{key}"}
    values = [(row.energy_j if joules else row.time_s) or 0.0 for _, row in known]
    spans = [row.interval_j if joules else None for _, row in known]
    bars = {
        "type": "bar",
        "orientation": "h",
        **axes,
        "y": [place for place, _ in known],
        "x": listed(v / steps for v in values),
        "marker": {
            "color": [colour(row.phase) for _, row in known],
            "opacity": [
                0.55
                if row.provenance == MODELLED
                else 0.9
                if joules and row.provenance == ESTIMATED
                else 1.0
                for _, row in known
            ],
            "pattern": {
                "shape": ["/" if row.provenance == MODELLED else "" for _, row in known],
                "fgopacity": 0.6,
            },
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "thickness": 1.6,
            "width": 5,
            "color": "#6b6b70",
            "array": listed(
                (s[1] - v) / steps if s else 0.0 for s, v in zip(spans, values, strict=True)
            ),
            "arrayminus": listed(
                (v - s[0]) / steps if s else 0.0 for s, v in zip(spans, values, strict=True)
            ),
        },
        "hovertext": [_hover(row) for _, row in known],
        "hoverinfo": "text",
    }
    ends = [max(s[1] if s else v, v) / steps for s, v in zip(spans, values, strict=True)]
    labels = {
        "type": "scatter",
        "mode": "text",
        **axes,
        "x": listed(ends),
        "y": [place for place, _ in known],
        "textposition": "middle right",
        "cliponaxis": False,
        "text": [
            f"  {_said(row, joules, steps)}, {100 * v / total:.0f} %"
            for (_, row), v in zip(known, values, strict=True)
        ],
        "hoverinfo": "skip",
        "textfont": {"color": "#1d1d1f"},
    }
    # Room for the labels, whatever the values.
    room = {
        "type": "scatter",
        "mode": "markers",
        **axes,
        "hoverinfo": "skip",
        "x": [1.6 * max(ends, default=1.0)],
        "y": [0],
        "marker": {"opacity": 0},
    }
    drawn: list[dict[str, Any]] = [bars, labels, room]
    if refused:
        bounds = [row.bounds_j or (0.0, 0.0) for _, row in refused]
        drawn.append(
            {
                "type": "bar",
                "orientation": "h",
                **axes,
                "y": [place for place, _ in refused],
                "base": listed(low / steps for low, _ in bounds),
                "x": listed((high - low) / steps for low, high in bounds),
                "marker": {
                    "color": "rgba(0,0,0,0)",
                    "line": {"color": "#808080", "width": 1.5},
                    "pattern": {"shape": ".", "fgcolor": "#808080", "fgopacity": 0.5},
                },
                "hovertext": [_hover(row) for _, row in refused],
                "hoverinfo": "text",
            }
        )
    return drawn


def _said(row: PhaseRow, joules: bool, steps: int) -> str:
    if not joules:
        return duration((row.time_s or 0.0) / steps)
    half = (row.interval_j[1] - row.interval_j[0]) / 2 / steps if row.interval_j else None
    return energy((row.energy_j or 0.0) / steps, half)


def _hover(row: PhaseRow) -> str:
    told = [plain(row.phase)]
    if row.energy_j is not None:
        told.append(f"{energy(row.energy_j)} in all")
        if row.interval_j:
            told.append(f"95 %: {interval(*row.interval_j)} J")
    elif row.bounds_j:
        told.append(f"cannot be told apart; between {interval(*row.bounds_j)} J")
    if row.time_s is not None:
        told.append(duration(row.time_s))
    if row.power_w is not None:
        told.append(f"{number(row.power_w)} W")
    told.append(
        row.provenance
        + (
            f", {row.status.replace('_', ' ')}"
            if row.energy_j is not None and row.provenance != MODELLED
            else ""
        )
    )
    return "<br>".join(told)


def most(run: Overview) -> tuple[PhaseRow, float, str] | None:
    """The phase that takes most, its share, and of what: energy if that is known, else time."""
    rows = pooled(told_apart(run.phases))
    named = [row for row in rows if row.phase not in ("unattributed", "unresolved")]
    if any(_measured(row) for row in named):  # a model's joules are never added to measured ones
        named = [row for row in named if row.provenance != MODELLED]
        rows = [row for row in rows if row.provenance != MODELLED]
    for joules in (True, False):
        known: dict[str, float] = {}
        for row in named:
            value = row.energy_j if joules else row.time_s
            if value is not None:
                known[row.phase] = known.get(row.phase, 0.0) + value
        whole = sum(row.energy_j or 0.0 for row in rows) if joules else sum(known.values())
        if known and whole:
            phase = max(known, key=lambda name: known[name])
            row = next(row for row in named if row.phase == phase)
            return row, known[phase] / whole, "energy" if joules else "time"
    return None


def _caption(
    run: Overview, rows: Sequence[PhaseRow], shown: Sequence[str], joules: bool, shared: int
) -> str:
    found = most(run)
    told = []
    if found is not None:
        row, share, what = found
        model = (
            " (by a model of the processor: no meter)"
            if (what == "energy" and row.provenance == MODELLED)
            else ""
        )
        told.append(f"{short(row.phase, 60)} takes most: {100 * share:.0f} % of the {what}{model}.")
    if joules:
        refused = list(
            dict.fromkeys(
                short(r.phase, 40)
                for r in rows
                if r.energy_j is None and r.bounds_j and r.device in shown
            )
        )
        if any(r.device.endswith("together") for r in rows):
            told.append("All GPUs together; the table has each.")
        if any(r.interval_j for r in rows):
            told.append("Whiskers are 95 % intervals.")
        if refused:
            told.append(
                f"Open ranges ({', '.join(refused[:4])}) are bounds of what cannot be told apart."
            )
        if any(r.provenance == MODELLED for r in rows if r.device in shown):
            told.append("Hatched bars are a model's.")
    elif run.live:
        told.append(
            "Time only: joules per phase appear once they can be told apart, if there is a meter."
        )
    elif shared:
        told.append(
            "Time only: several ranks share what meters or models tell; it stands in the table."
        )
    else:
        told.append("Time only: no energy is known.")
    more = len({r.device for r in rows}) - len(shown) + (shared if joules else 0)
    if more > 0:
        told.append(f"{more} more device{'s stand' if more > 1 else ' stands'} in the table.")
    return " ".join(told)
