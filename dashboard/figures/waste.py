"""What is not training?"""

from __future__ import annotations

from collections.abc import Mapping

from probe.report.all_devices import MODELLED, all_devices
from probe.report.model import JsonValue, Report
from probe.report.numbers import duration, energy

from ..chart_data import Cell, Chart, Column, Fragment
from .style import GREY, PHASES, figure

_USES: Mapping[str, tuple[str, ...]] = {
    "training": ("forward", "backward", "optimizer"),
    "replay of checkpointed layers": ("recompute",),
    "waiting for data": ("data",),
    "waiting for other ranks": ("communication",),
    "inference": ("inference",),
    "evaluation and saving": ("eval", "checkpoint"),
    "start-up and compilers": ("startup", "startup/compile"),
    "between the phases": ("other",),
    "before, after, gaps": ("unattributed",),
    "cannot be told apart": ("unresolved",),
}
_COLOURS = {
    "training": PHASES["forward"],
    "replay of checkpointed layers": PHASES["recompute"],
    "waiting for data": PHASES["data"],
    "waiting for other ranks": PHASES["communication"],
    "evaluation and saving": PHASES["eval"],
    "inference": PHASES["inference"],
    "start-up and compilers": PHASES["startup"],
    "between the phases": GREY,
    "before, after, gaps": "#9c9ca4",
    "cannot be told apart": "#6f6f76",
    "your own phases": PHASES["checkpoint"],
}
WASTE = ("waiting for data", "waiting for other ranks", "before, after, gaps")
_WAITING = ("data", "communication")
_COUNTS = 0.01  # of the time: a phase that waits for less is not missed
_OF = {"J": "energy", "s": "time"}


def uses(report: Report) -> tuple[dict[str, float], str, bool]:
    """(what for → joules or seconds, the unit, whether a model's)."""
    tables = all_devices(report)
    kind = tables[0].kind if tables else ""
    phases = tables[0].phases if tables else ()
    rows = [row for row in phases if row.energy_j is not None]
    # Joules that cannot be told apart may be those of waiting: then time says more.
    refused = any(
        row.energy_j is None and (row.time_share or 0.0) >= _COUNTS and row.phase in _WAITING
        for row in phases
    )
    unit = "J" if rows and not refused else "s"
    if unit == "s":
        rows = [row for row in phases if row.time_share]
    amounts: dict[str, float] = {}
    for row in rows:
        phase = row.phase.partition("/")[0]
        what = next((use for use, names in _USES.items() if phase in names), "your own phases")
        amounts[what] = amounts.get(what, 0.0) + (
            (row.energy_j if unit == "J" else row.time_s) or 0.0
        )
    order = [*_USES, "your own phases"]
    return (
        {name: amounts[name] for name in order if amounts.get(name, 0.0) > 0},
        unit,
        kind == MODELLED,
    )


def wasted(report: Report) -> tuple[float, str] | None:
    """Share that is waiting or idle, and of what: "energy" or "time"; None if nothing is known."""
    amounts, unit, _ = uses(report)
    total = sum(amounts.values())
    return (sum(amounts.get(name, 0.0) for name in WASTE) / total, _OF[unit]) if total else None


def waste(report: Report, least_height: int = 0) -> Chart:
    """A bar for each use of the run's energy, or time.

    Args:
        least_height: of the figure, in pixels: that of what stands beside it.
    """
    amounts, unit, modelled = uses(report)
    columns = [Column("use", "what for"), Column("value", unit), Column("share", "share (%)")]
    total = sum(amounts.values())
    if not total:
        return Chart(
            "Nothing is known yet." if not report.final else "Nothing is known of it.",
            None,
            columns,
        )
    rows: list[list[Cell]] = [[name, value, 100 * value / total] for name, value in amounts.items()]
    formatted = energy if unit == "J" else duration
    data: list[Fragment] = []
    names: list[JsonValue] = []
    for name, value in amounts.items():
        share = value / total
        # Beneath its name, where it is whole however narrow the page.
        names.append(f"{name}<br>{100 * share:.0f} %, {formatted(value)}")
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [name],
                "x": [100 * share],
                "marker": {
                    "color": _COLOURS[name],
                    "opacity": 0.6 if modelled else 1.0,
                    "pattern": {"shape": "/" if modelled else "", "fgopacity": 0.6},
                },
                "hoverinfo": "skip",
            }
        )
    drawn = figure(
        data,
        height=max(least_height, 70 + 40 * len(amounts)),
        x=f"% of {_OF[unit]}",
        barmode="overlay",
        bargap=0.35,
        xaxis={"range": [0, 100], "tickvals": [0, 50, 100], "fixedrange": True},
        yaxis={
            "autorange": "reversed",
            "tickvals": list(amounts),
            "ticktext": names,
            "showgrid": False,
            "fixedrange": True,
        },
    )
    lost = sum(amounts.get(name, 0.0) for name in WASTE) / total
    caption = f"{100 * lost:.0f} % of the {_OF[unit]} is waiting or idle"
    worst = max((name for name in WASTE if name in amounts), key=lambda n: amounts[n], default=None)
    if worst is not None and lost > 0.01:
        caption += (
            f", most of it {worst}"
            if worst != "before, after, gaps"
            else ", most of it before and after the loop"
        )
    caption += "."
    if modelled:
        caption += " By a model of the processor."
    return Chart(caption, drawn, columns, rows)
