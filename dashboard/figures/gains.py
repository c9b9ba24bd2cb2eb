"""What did each change gain, where, and what should I pick?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probe.report.numbers import duration, energy
from probe.report.sentences import short
from probe.report.text_tables import joules as said_joules
from probe.report.text_tables import seconds as said_seconds

from ..chart_data import Chart, Column
from .style import GAIN, GREY, LOSS, SERIES, UNSURE, figure, listed, plain

_FOUR = {
    "early": "early training",
    "gradient": "gradient-heavy",
    "memory": "memory-bound",
    "communication": "communication",
    "rest": "the rest",
}
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon")
_WHISKER = 150.0  # percent beyond the bars

Json = Mapping[str, Any]


def by_cell(one: Json) -> Chart:
    """Waterfall of the gain over stage × class, with intervals; cells add up to the total."""
    joules = one["energy_j"]["provenance"] == "measured" and one["energy_j"]["gain"] is not None
    key, unit, said = ("energy_j", "J", said_joules) if joules else ("time_s", "s", said_seconds)
    columns = [
        Column("stage", "stage"),
        Column("class", "class"),
        Column("phases", "phases"),
        Column("gain", f"saved ({unit})"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
    ]
    cells = [cell for cell in one["cells"] if cell[key] is not None]
    rows = [
        [
            cell["stage"],
            cell["class"],
            ", ".join(cell["phases"]),
            cell[key],
            *(cell[f"{key}_interval"] or (None, None)),
            cell["verdict" if joules else "time_verdict"],
        ]
        for cell in cells
    ]
    if not cells:
        why = short(one["reason"] or "the comparison says nothing of them", 300)
        return Chart(f"No cells: {why}.", None, columns, rows)
    labels = [f"{cell['stage']}, {cell['class']}" for cell in cells]
    bars = [
        (plain(label, 34), row[3], None if row[4] is None else (row[4], row[5]), row[6])
        for label, row in zip(labels, rows, strict=True)
    ]
    total = one[key]
    drawn = _waterfall(bars, (total["gain"], total["interval"], total["verdict"]), unit, said)
    called = "verdict" if joules else "time_verdict"
    sure = [cell for cell in cells if cell[called] != "no evidence"]
    if sure:
        best = max(sure, key=lambda cell: abs(cell[key]))
        better = "saves" if best[key] > 0 else "costs"
        caption = (
            f"The largest part that is sure: {best['stage']} {best['class']} {better} "
            f"{said(abs(best[key]))}. "
        )
    else:
        caption = "No single part is sure. "
    caption += "Right of zero is saved. Grey parts may be nothing; the parts add up to the total."
    return Chart(caption, drawn, columns, rows)


def _waterfall(
    bars: Sequence[tuple[str, float, Sequence[float] | None, str]],
    total: tuple[float, Sequence[float] | None, str],
    unit: str,
    said: Any,
) -> dict[str, Any]:
    """Horizontal, each part where the one before ended, the total last from zero."""
    names = [name for name, *_ in bars] + ["all together"]
    parts = [value for _, value, _, _ in bars]
    begins = [0.0, *np.cumsum(parts[:-1]).tolist(), 0.0] if parts else [0.0]
    values = [*parts, total[0]]
    limits = [limit for _, _, limit, _ in bars] + [total[1]]
    verdicts = [verdict for *_, verdict in bars] + [total[2]]
    ends = [begin + value for begin, value in zip(begins, values, strict=True)]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(range(len(names))),
            "base": listed(begins),
            "x": listed(values),
            "marker": {"color": [_called(v) for v in verdicts]},
            "hovertext": [
                f"{name}<br>{said(value)}<br>{verdict}"
                for name, value, verdict in zip(names, values, verdicts, strict=True)
            ],
            "hoverinfo": "text",
        }
    ]
    known = [(i, limit) for i, limit in enumerate(limits) if limit is not None]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "y": [i for i, _ in known],
            "x": listed(ends[i] for i, _ in known),
            "marker": {"size": 1, "color": "#6b6b70"},
            "hoverinfo": "skip",
            "error_x": {
                "type": "data",
                "symmetric": False,
                "thickness": 1.6,
                "width": 5,
                "color": "#6b6b70",
                "array": listed(limit[1] - values[i] for i, limit in known),
                "arrayminus": listed(values[i] - limit[0] for i, limit in known),
            },
        }
    )
    reach = [begins[i] + limit[1] for i, limit in known] + ends + begins
    data.append(
        {
            "type": "scatter",
            "mode": "text",
            "y": list(range(len(names))),
            "x": listed([max(reach)] * len(names)),
            "textposition": "middle right",
            "text": [f"  {said(value)}" for value in values],
            "cliponaxis": False,
            "hoverinfo": "skip",
        }
    )
    lows = [begins[i] + limit[0] for i, limit in known] + ends + begins
    width = (max(reach) - min(lows)) or 1.0
    return figure(
        data,
        height=90 + 30 * len(names),
        x=f"saved ({unit})",
        bargap=0.35,
        xaxis={
            "range": [min(lows) - 0.03 * width, max(reach) + 0.28 * width],
            "fixedrange": True,
            "zeroline": True,
            "zerolinewidth": 2,
        },
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )


def _called(verdict: str) -> str:
    return {"gain": GAIN, "loss": LOSS}.get(verdict, UNSURE)


def four(one: Json) -> Chart:
    """The gain by the paper's four kinds of phase, and what is left."""
    columns = [
        Column("kind", "kind of phase"),
        Column("share", "share (%)"),
        Column("low", "95 % from"),
        Column("high", "to"),
    ]
    if not one["four"]:
        why = short(one["reason"] or "nothing was gained or lost for sure", 300)
        return Chart(f"No division: {why}.", None, columns)
    rows = [
        [
            _FOUR[name],
            100 * share,
            *(
                (100 * v for v in one["four_intervals"][name])
                if one["four_intervals"][name]
                else (None, None)
            ),
        ]
        for name, share in one["four"].items()
    ]
    names = [row[0] for row in rows]
    values = [row[1] for row in rows]
    spans = [(row[2], row[3]) if row[2] is not None else (row[1], row[1]) for row in rows]
    # A whisker that says "anything" would leave nothing of the bars.
    ends = [end for span in spans for end in span]
    least = max(min(0.0, *values, *ends), min(0.0, *values) - _WHISKER)
    most = min(max(1.0, *values, *ends), max(1.0, *values) + _WHISKER)
    cut = " (some go on beyond the picture)" if min(ends) < least or max(ends) > most else ""
    drawn = figure(
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": listed(values),
                "marker": {"color": [*SERIES[:4], GREY]},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "thickness": 1.6,
                    "width": 5,
                    "color": "#6b6b70",
                    "array": listed(high - v for (_, high), v in zip(spans, values, strict=True)),
                    "arrayminus": listed(
                        v - low for (low, _), v in zip(spans, values, strict=True)
                    ),
                },
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "text",
                "y": names,
                "hoverinfo": "skip",
                "cliponaxis": False,
                "x": listed(
                    min(max(high, v, 0), most) for (_, high), v in zip(spans, values, strict=True)
                ),
                "text": [f"  {v:.0f} %" if round(v) else "  none" for v in values],
                "textposition": "middle right",
            },
        ],
        height=260,
        x=f"% of the {one['verdict']} of {one['four_of']}",
        bargap=0.35,
        xaxis={"fixedrange": True, "zerolinewidth": 2, "range": [least - 2, 1.25 * most]},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
    )
    first = max(rows, key=lambda row: row[1])
    return Chart(
        f"{first[0]} makes the largest part of the {one['verdict']}: {first[1]:.0f} %. "
        f"Whiskers are 95 % intervals{cut}; the five parts add up to 100 %.",
        drawn,
        columns,
        rows,
    )


def pareto(comparison: Json) -> Chart:
    """Each side by time and energy, with lines of the same energy × delay product (EDP)."""
    columns = [
        Column("name", "name"),
        Column("time_s", "time (s)"),
        Column("energy_j", "energy (J)"),
        Column("edp", "energy × delay (J·s)"),
        Column("quality", "quality"),
        Column("best", "nobody is better in both"),
    ]
    points = _points(comparison)
    if not points:
        return Chart(
            "No energy is known, so there is nothing to weigh against time.", None, columns
        )
    front = {one.name for one in points if not any(one.worse_than(other) for other in points)}
    rows = [
        [
            one.name,
            one.time_s,
            one.energy_j,
            one.time_s * one.energy_j,
            one.quality,
            one.name in front,
        ]
        for one in points
    ]
    times = [one.time_s for one in points]
    energies = [one.energy_j for one in points]
    span = 0.12
    low_t, high_t = min(times) * (1 - span), max(times) * (1 + span)
    low_e, high_e = min(energies) * (1 - span), max(energies) * (1 + span)
    data: list[dict[str, Any]] = []
    for factor in (0.5, 0.75, 1.0, 1.5, 2.0):
        edp = times[0] * energies[0] * factor
        x = np.linspace(low_t, high_t, 60)
        y = edp / x
        keep = (y >= low_e) & (y <= high_e)
        if keep.sum() < 8:
            continue
        label = int(0.6 * keep.sum())
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": listed(x[keep]),
                "y": listed(y[keep]),
                "hoverinfo": "skip",
                "line": {"color": GREY, "width": 1, "dash": "dot"},
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "text",
                "x": listed(x[keep][label : label + 1]),
                "y": listed(y[keep][label : label + 1]),
                "textposition": "top right",
                "text": [f"{factor:g} × the base's EDP"],
                "hoverinfo": "skip",
                "textfont": {"size": 11, "color": GREY},
            }
        )
    for place, one in enumerate(points):
        quality = f"<br>quality {one.quality:.4g}" if one.quality is not None else ""
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [one.time_s],
                "y": [one.energy_j],
                "text": [plain(one.name, 24)],
                "textposition": "top center",
                "cliponaxis": False,
                "marker": {
                    "size": 12,
                    "color": SERIES[place % len(SERIES)],
                    "symbol": _SYMBOLS[place % len(_SYMBOLS)],
                },
                "error_x": _error(one.time_error),
                "error_y": _error(one.energy_error),
                "hovertext": [
                    f"{plain(one.name)}<br>{duration(one.time_s)}, {energy(one.energy_j)}" + quality
                ],
                "hoverinfo": "text",
            }
        )
    drawn = figure(
        data,
        height=380,
        x="time (s)",
        y="energy (J)",
        xaxis={"range": [low_t, high_t]},
        yaxis={"range": [low_e, high_e]},
    )
    modelled = any(c["energy_j"]["provenance"] == "modelled" for c in comparison["comparisons"])
    best = sorted(short(name, 60) for name in front)
    caption = (
        f"Nobody is better in both time and energy than {', '.join(best[:4])}. "
        "Dotted lines join the same energy × delay."
    )
    return Chart(caption + (" The energy is a model's." if modelled else ""), drawn, columns, rows)


def _error(limits: Sequence[float] | None) -> dict[str, Any]:
    if limits is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [limits[1]],
        "arrayminus": [limits[0]],
        "color": "#6b6b70",
        "thickness": 1.2,
        "width": 4,
    }


@dataclass(frozen=True, slots=True)
class _Point:
    """A side; errors are distances to the ends of the interval of what it saved."""

    name: str
    time_s: float
    energy_j: float
    quality: float | None
    time_error: Sequence[float] | None = None
    energy_error: Sequence[float] | None = None

    def worse_than(self, other: _Point) -> bool:
        """In one of both, and better in none."""
        mine, theirs = (self.time_s, self.energy_j), (other.time_s, other.energy_j)
        return theirs[0] <= mine[0] and theirs[1] <= mine[1] and theirs != mine


def _points(comparison: Json) -> list[_Point]:
    found: list[_Point] = []
    for one in comparison["comparisons"]:
        time, joules = one["time_s"], one["energy_j"]
        if None in (time.get("base"), time.get("other"), joules.get("base"), joules.get("other")):
            continue
        if not found:
            found.append(
                _Point(
                    comparison["base"]["name"], time["base"], joules["base"], one["quality"]["base"]
                )
            )
        found.append(
            _Point(
                one["other"]["name"],
                time["other"],
                joules["other"],
                one["quality"]["other"],
                _halves(time),
                _halves(joules),
            )
        )
    return found


def _halves(g: Json) -> Sequence[float] | None:
    """An interval of what was saved is one of what was used, the other way round."""
    if g["interval"] is None or g["gain"] is None:
        return None
    low, high = g["interval"]
    return max(0.0, high - g["gain"]), max(0.0, g["gain"] - low)


def by_technique(found: Json) -> Chart:
    """Waterfall of an ablation: what each technique saved, one after the other or on average."""
    columns = [
        Column("technique", "technique"),
        Column("gain", "saved"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
        Column("unit", "unit"),
    ]
    unit, said, rows, total = _techniques(found)
    if not rows:
        return Chart("This ablation says nothing yet: trials are still to be run.", None, columns)
    drawn = _waterfall(
        [(plain(n, 34), v, limits, verdict) for n, v, limits, verdict in rows], total, unit, said
    )
    best = max(rows, key=lambda row: row[1])
    told = ["Nothing saves."]
    if best[1] > 0:
        told = [f"{short(best[0], 60)} saves most: {said(best[1])}."]
    how = {
        "cumulative": "Each is what the step adds to those before it.",
        "leave-one-out": "Each is what would be lost without it.",
        "shapley": "Shapley values: each one's mean over all orders.",
    }[found["design"]]
    told.append(how)
    if found.get("sound") is False:
        told.append("UNSOUND: doing nothing made a difference, so no figure here can be trusted.")
    return Chart(
        " ".join(told),
        drawn,
        columns,
        [
            [n, v, *(limits or (None, None)), verdict, unit]
            for n, v, limits, verdict in [*rows, ("all together", *total)]
        ],
    )


def _techniques(found: Json) -> tuple[str, Any, list[Any], Any]:
    nothing = found["no_op"]
    joules = nothing["energy_j"]["provenance"] == "measured"
    key, unit, said = ("energy_j", "J", said_joules) if joules else ("time_s", "s", said_seconds)

    def of(g: Json) -> tuple[float, Any, str]:
        return g["gain"], g["interval"], g["verdict"]

    rows: list[Any] = []
    total: Any = None
    if found["design"] == "cumulative":
        rows = [(row["technique"], *of(row["step"][key])) for row in found.get("steps", [])]
        if found.get("steps"):
            total = of(found["steps"][-1]["in_all"][key])
    elif found["design"] == "leave-one-out":
        rows = [(row["technique"], *of(row["gain"][key])) for row in found.get("left_out", [])]
        total = of(found["all"][key])
    else:
        told = (found.get("shapley") or {}).get(key)
        if told:
            rows = [(row["technique"], *of(row)) for row in told["techniques"]]
            total = (sum(row[1] for row in rows if row[1] is not None), None, "no evidence")
    rows = [row for row in rows if row[1] is not None]
    if total is None or total[0] is None:
        total = (sum(row[1] for row in rows), None, "no evidence")
    return unit, said, rows, total
