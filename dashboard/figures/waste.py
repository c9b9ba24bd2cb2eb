"""What is not training?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probe.report.numbers import duration, energy

from ..chart_data import MODELLED, Chart, Column, Overview, PhaseRow, told_apart
from .style import GREY, PHASES, figure

_USES: Mapping[str, tuple[str, ...]] = {
    "training": ("forward", "backward", "optimizer"),
    "replay of checkpointed layers": ("recompute",),
    "waiting for data": ("data",),
    "waiting for other ranks": ("communication",),
    "evaluation and saving": ("eval", "checkpoint"),
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
    "between the phases": GREY,
    "before, after, gaps": "#9c9ca4",
    "cannot be told apart": "#6f6f76",
    "your own phases": PHASES["checkpoint"],
}
WASTE = ("waiting for data", "waiting for other ranks", "before, after, gaps")


def uses(run: Overview) -> tuple[dict[str, float], str, bool]:
    """(what for → joules or seconds, the unit, whether a model's)."""
    apart = told_apart(run.phases)
    measured = [r for r in apart if r.energy_j is not None and r.provenance != MODELLED]
    modelled = [r for r in apart if r.energy_j is not None and r.provenance == MODELLED]
    rows: list[PhaseRow] = measured or modelled
    unit = "J"
    if not rows:
        rows, unit = [r for r in apart if r.time_s], "s"
        first = rows[0].device if rows else ""
        rows = [r for r in rows if r.device == first]
    found: dict[str, float] = {}
    for row in rows:
        whole = row.phase.partition("/")[0]
        what = next((use for use, names in _USES.items() if whole in names), "your own phases")
        found[what] = found.get(what, 0.0) + ((row.energy_j if unit == "J" else row.time_s) or 0.0)
    order = [*_USES, "your own phases"]
    return (
        {name: found[name] for name in order if found.get(name, 0.0) > 0},
        unit,
        bool(rows) and not measured and unit == "J",
    )


def wasted(run: Overview) -> float | None:
    """Share that waits or idles; None if nothing is known."""
    found, _, _ = uses(run)
    whole = sum(found.values())
    return sum(found.get(name, 0.0) for name in WASTE) / whole if whole else None


def waste(run: Overview) -> Chart:
    """One bar of the whole run."""
    found, unit, modelled = uses(run)
    columns = [Column("use", "what for"), Column("value", unit), Column("share", "share (%)")]
    whole = sum(found.values())
    if not whole:
        return Chart(
            "Nothing is known yet." if run.live else "Nothing is known of it.", None, columns
        )
    rows: list[list[Any]] = [[name, value, 100 * value / whole] for name, value in found.items()]
    said = energy if unit == "J" else duration
    data: list[dict[str, Any]] = []
    for name, value in found.items():
        share = value / whole
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
                "text": [f" {100 * share:.1f} %, {said(value)}"],
                "textposition": "outside",
                "cliponaxis": False,
                "hoverinfo": "skip",
            }
        )
    drawn = figure(
        data,
        height=70 + 34 * len(found),
        x="% of the run's " + ("energy" if unit == "J" else "time"),
        barmode="overlay",
        bargap=0.35,
        xaxis={"range": [0, 160], "tickvals": [0, 25, 50, 75, 100], "fixedrange": True},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
    )
    lost = sum(found.get(name, 0.0) for name in WASTE) / whole
    told = f"{100 * lost:.0f} % waits or idles"
    worst = max((name for name in WASTE if name in found), key=lambda n: found[n], default=None)
    if worst is not None and lost > 0.01:
        told += (
            f", most of it {worst}"
            if worst != "before, after, gaps"
            else ", most of it before and after the loop"
        )
    told += "."
    if modelled:
        told += " By a model of the processor."
    return Chart(told, drawn, columns, rows)
