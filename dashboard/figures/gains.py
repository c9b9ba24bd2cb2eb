"""Which parts make the gain of a comparison?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probe.report.sentences import short
from probe.report.text_tables import joules as joules_text
from probe.report.text_tables import seconds as seconds_text

from ..chart_data import Chart, Column, Figure
from .style import GAIN, GREY, LOSS, SERIES, UNSURE, figure, listed, plain, whiskers

_KINDS = {
    "early": "early training",
    "gradient": "gradient-heavy",
    "memory": "memory-bound",
    "communication": "communication",
    "rest": "the rest",
}
_MAX_WHISKER = 150.0  # percent beyond the bars

_COLOURS = {"gain": GAIN, "loss": LOSS}

Json = Mapping[str, Any]


def by_cell(pair: Json) -> Chart:
    """Waterfall of the gain over stage × class, with intervals; cells add up to the total."""
    joules = pair["energy_j"]["provenance"] == "measured" and pair["energy_j"]["gain"] is not None
    key, unit, formatted = (
        ("energy_j", "J", joules_text) if joules else ("time_s", "s", seconds_text)
    )
    verdict_key = "verdict" if joules else "time_verdict"
    columns = [
        Column("stage", "stage"),
        Column("class", "class"),
        Column("phases", "phases"),
        Column("gain", f"saved ({unit})"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
    ]
    cells = [cell for cell in pair["cells"] if cell[key] is not None]
    rows = [
        [
            cell["stage"],
            cell["class"],
            ", ".join(cell["phases"]),
            cell[key],
            *(cell[f"{key}_interval"] or (None, None)),
            cell[verdict_key],
        ]
        for cell in cells
    ]
    if not cells:
        why = short(pair["reason"] or "the comparison says nothing of them", 300)
        return Chart(f"No cells: {why}.", None, columns, rows)
    parts = [
        Part(plain(f"{stage}, {class_}", 34), gain, None if low is None else (low, high), verdict)
        for stage, class_, _, gain, low, high, verdict in rows
    ]
    total = Part("all together", pair[key]["gain"], pair[key]["interval"], pair[key]["verdict"])
    drawn = waterfall(parts, total, unit, formatted)
    sure = [cell for cell in cells if cell[verdict_key] != "no evidence"]
    if sure:
        best = max(sure, key=lambda cell: abs(cell[key]))
        better = "saves" if best[key] > 0 else "costs"
        caption = (
            f"The largest part that is sure: {best['stage']} {best['class']} {better} "
            f"{formatted(abs(best[key]))}. "
        )
    else:
        caption = "No single part is sure. "
    caption += "Right of zero is saved. Grey parts may be nothing; the parts add up to the total."
    return Chart(caption, drawn, columns, rows)


def by_kind(pair: Json) -> Chart:
    """The gain by the paper's four kinds of phase, and what is left."""
    columns = [
        Column("kind", "kind of phase"),
        Column("share", "share (%)"),
        Column("low", "95 % from"),
        Column("high", "to"),
    ]
    if not pair["four"]:
        why = short(pair["reason"] or "nothing was gained or lost for sure", 300)
        return Chart(f"No division: {why}.", None, columns)
    rows = [
        [
            _KINDS[name],
            100 * share,
            *(
                (100 * v for v in pair["four_intervals"][name])
                if pair["four_intervals"][name]
                else (None, None)
            ),
        ]
        for name, share in pair["four"].items()
    ]
    names = [row[0] for row in rows]
    values = [row[1] for row in rows]
    spans = [(row[2], row[3]) if row[2] is not None else (row[1], row[1]) for row in rows]
    # A whisker that says "anything" would leave nothing of the bars.
    ends = [end for span in spans for end in span]
    least = max(min(0.0, *values, *ends), min(0.0, *values) - _MAX_WHISKER)
    most = min(max(1.0, *values, *ends), max(1.0, *values) + _MAX_WHISKER)
    cut = " (some go on beyond the picture)" if min(ends) < least or max(ends) > most else ""
    drawn = figure(
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": listed(values),
                "marker": {"color": [*SERIES[:4], GREY]},
                "error_x": whiskers(
                    (high - v for (_, high), v in zip(spans, values, strict=True)),
                    (v - low for (low, _), v in zip(spans, values, strict=True)),
                ),
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
        x=f"% of the {pair['verdict']} of {pair['four_of']}",
        bargap=0.35,
        xaxis={"fixedrange": True, "zerolinewidth": 2, "range": [least - 2, 1.25 * most]},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
    )
    first = max(rows, key=lambda row: row[1])
    return Chart(
        f"{first[0]} makes the largest part of the {pair['verdict']}: {first[1]:.0f} %. "
        f"Whiskers are 95 % intervals{cut}; the five parts add up to 100 %.",
        drawn,
        columns,
        rows,
    )


class Part(NamedTuple):
    """What a part gained, or all together; J or s, with the 95 % interval."""

    name: str
    gain: float
    interval: Sequence[float] | None
    verdict: str


def waterfall(
    parts: Sequence[Part], total: Part, unit: str, text: Callable[[float], str]
) -> Figure:
    """A figure of horizontal bars, the total last; ``text`` writes a gain with its unit."""
    bars = [*parts, total]
    begins = [0.0, *np.cumsum([part.gain for part in parts[:-1]]).tolist(), 0.0][-len(bars) :]
    ends = [begin + bar.gain for begin, bar in zip(begins, bars, strict=True)]
    limited = [(i, bar.gain, bar.interval) for i, bar in enumerate(bars) if bar.interval]
    right = max([begins[i] + limits[1] for i, _, limits in limited] + ends + begins)
    left = min([begins[i] + limits[0] for i, _, limits in limited] + ends + begins)
    width = (right - left) or 1.0
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(range(len(bars))),
            "base": listed(begins),
            "x": listed(bar.gain for bar in bars),
            "marker": {"color": [_COLOURS.get(bar.verdict, UNSURE) for bar in bars]},
            "hovertext": [f"{bar.name}<br>{text(bar.gain)}<br>{bar.verdict}" for bar in bars],
            "hoverinfo": "text",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "y": [i for i, _, _ in limited],
            "x": listed(ends[i] for i, _, _ in limited),
            "marker": {"size": 1, "color": "#6b6b70"},
            "hoverinfo": "skip",
            "error_x": whiskers(
                (limits[1] - gain for _, gain, limits in limited),
                (gain - limits[0] for _, gain, limits in limited),
            ),
        },
        {
            "type": "scatter",
            "mode": "text",
            "y": list(range(len(bars))),
            "x": listed([right] * len(bars)),
            "textposition": "middle right",
            "text": [f"  {text(bar.gain)}" for bar in bars],
            "cliponaxis": False,
            "hoverinfo": "skip",
        },
    ]
    return figure(
        data,
        height=90 + 30 * len(bars),
        x=f"saved ({unit})",
        bargap=0.35,
        xaxis={
            "range": [left - 0.03 * width, right + 0.28 * width],
            "fixedrange": True,
            "zeroline": True,
            "zerolinewidth": 2,
        },
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(bars))),
            "ticktext": [bar.name for bar in bars],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )
