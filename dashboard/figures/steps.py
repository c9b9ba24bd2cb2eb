"""Where in a step does the energy go, and does the cost of a step drift?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from probe.report.numbers import duration, energy, scaled

from ..chart_data import Anatomy, Cell, Chart, Column, Drift, Fragment
from .label_places import LABEL_GAP, LINE, in_rows
from .power import LINES, lines, together
from .style import BAND, BLUE, VERMILION, TimeScale, colour, figure, listed, plain

_LABELLED = 0.06  # of the width; a shorter bar has no room for its name
_MAX_CHANGES = 12  # that are drawn
_CHANGE_ROWS = 4  # of labels above each other


def anatomy(steps: Anatomy | None) -> Chart:
    """Lanes of phases on each clock, power beneath, one axis of milliseconds."""
    columns = [
        Column("lane", "lane"),
        Column("phase", "phase"),
        Column("begin_ms", "from (ms)"),
        Column("end_ms", "to (ms)"),
    ]
    if steps is None or not steps.lanes:
        return Chart("No whole step was recorded at this time.", None, columns)
    zero = float(steps.steps_s[0])
    width = float(steps.steps_s[-1]) - zero
    data: list[Fragment] = []
    rows: list[list[Cell]] = []
    for place, lane in enumerate(steps.lanes):
        begin, end = ((1e3 * (at - zero)) for at in (lane.begin_s, lane.end_s))
        rows += [
            [lane.name, phase, round(float(b), 4), round(float(e), 4)]
            for phase, b, e in zip(lane.phase, begin, end, strict=True)
        ]
        for phase in dict.fromkeys(lane.phase):
            places = [i for i, name in enumerate(lane.phase) if name == phase]
            wide = [float(end[i] - begin[i]) >= _LABELLED * 1e3 * width for i in places]
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": [place] * len(places),
                    "base": listed(begin[places]),
                    "x": listed(end[places] - begin[places]),
                    "width": 0.62,
                    "marker": {"color": colour(phase), "line": {"width": 0.5, "color": "#ffffff"}},
                    "text": [plain(phase, 16) if w else "" for w in wide],
                    "textposition": "inside",
                    "insidetextanchor": "middle",
                    "textangle": 0,
                    "insidetextfont": {"color": "#000000", "size": 12},
                    "hovertext": [
                        f"{plain(phase)}<br>{duration(float(end[i] - begin[i]) / 1e3)}"
                        for i in places
                    ],
                    "hoverinfo": "text",
                    "constraintext": "inside",
                }
            )
    lanes_share = 0.62 if steps.power is not None else 1.0
    drawn = figure(
        data,
        height=height(len(steps.lanes), has_power=steps.power is not None),
        x="ms",
        barmode="overlay",
        uniformtext={"mode": "hide", "minsize": 11},
        xaxis={"anchor": "y2"} if steps.power is not None else {},
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(steps.lanes))),
            "ticktext": [plain(lane.name, 24) for lane in steps.lanes],
            "showgrid": False,
            "zeroline": False,
            "domain": [1 - lanes_share + (0.06 if steps.power else 0), 1],
            "fixedrange": True,
        },
        shapes=[
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": x,
                "x1": x,
                "y0": 0,
                "y1": 1,
                "line": {"color": "#808080", "width": 1, "dash": "dot"},
            }
            for x in listed(1e3 * (steps.steps_s - zero))
        ],
    )
    if steps.power is not None:
        drawn["data"] += [{**trace, "yaxis": "y2"} for trace in _shifted_power(steps, zero)]
        drawn["layout"]["yaxis2"] = {
            "domain": [0, 1 - lanes_share],
            "rangemode": "tozero",
            "anchor": "x",
            "title": {"text": "W", "standoff": 4},
            "automargin": True,
            "gridcolor": "#e3e3e6",
            "fixedrange": True,
        }
    number = len(steps.steps_s) - 1
    caption = (
        f"{'Step' if number == 1 else 'Steps'} {steps.first_step}"
        + (f" to {steps.first_step + number - 1}" if number > 1 else "")
        + f", {duration(width / number)} each. "
    )
    if steps.power is not None:
        caption += (
            "Power is the meter's mean over its update period: it cannot follow a phase "
            "that is shorter."
        )
    return Chart(caption, drawn, columns, rows)


def _shifted_power(steps: Anatomy, zero: float) -> list[Fragment]:
    """Traces of power for the axis of the lanes: few devices singly, many as median and range."""
    assert steps.power is not None
    shifted = replace(steps.power, edges_s=steps.power.edges_s - zero)
    scale = TimeScale(1e-3, "ms")
    few = len(shifted.devices) <= LINES
    drawn = lines(shifted, scale) if few else together(shifted, scale)
    return [trace for trace in drawn if few or trace["mode"] == "lines"]


def height(lanes: int, *, has_power: bool) -> int:
    """Pixels of the figure of a step."""
    return 110 + 44 * lanes + (110 if has_power else 0)


def drift(series: Drift | None) -> Chart:
    """Joules (or seconds) per step along the run, with the places where the level changed."""
    columns = [
        Column("step", "step"),
        Column("value", "per step"),
        Column("low", "from"),
        Column("high", "to"),
        Column("unit", "unit"),
        Column("change", "level changes here"),
    ]
    if series is None:
        return Chart("Too few steps to see a drift.", None, columns)
    x = listed(series.steps)
    y, low, high = (listed(values) for values in (series.value, series.low, series.high))
    rows = [
        [step, value, a, b, series.unit, i in set(series.changes)]
        for i, (step, value, a, b) in enumerate(zip(x, y, low, high, strict=True))
    ]
    factor, prefix = scaled(float(np.nanmax(np.append(series.value, 0.0))))
    unit = prefix + series.unit
    y, low, high = (listed(values / factor) for values in (series.value, series.low, series.high))
    data: list[Fragment] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x + x[::-1],
            "y": high + low[::-1],
            "fill": "toself",
            "fillcolor": BAND,
            "line": {"width": 0},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "line": {"color": BLUE, "width": 1.8},
            "hovertemplate": "step %{x:.0f}<br>%{y:.4g} " + unit + "<extra></extra>",
        },
    ]
    bounds = [0, *series.changes, len(series.value)]
    levels = [float(np.median(series.value[a:b])) for a, b in pairwise(bounds)]
    formatted = energy if series.unit == "J" else duration
    shapes: list[Fragment] = []
    begins = [float(series.steps[change]) - series.block / 2 for change in series.changes]
    for at in begins[:_MAX_CHANGES]:
        shapes.append(
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "line": {"color": VERMILION, "width": 1.2, "dash": "dash"},
            }
        )
    drawn = figure(
        data,
        height=260,
        x="optimizer step",
        y=f"{unit} per step",
        shapes=shapes,
        annotations=_change_labels(
            begins[:_MAX_CHANGES], levels, (float(series.steps[0]), float(series.steps[-1]))
        ),
        yaxis={"rangemode": "tozero"},
    )
    what = "energy" if series.unit == "J" else "time"
    if series.changes:
        caption = (
            f"The {what} of a step changed {len(series.changes)} time"
            f"{'s' if len(series.changes) > 1 else ''}, from {formatted(levels[0])} at first to "
            f"{formatted(levels[-1])} at last."
        )
    else:
        caption = f"No lasting change: {formatted(float(np.median(series.value)))} a step."
    caption += (
        " Each point is "
        + ("one step" if series.block == 1 else f"the mean of {series.block} steps")
        + (
            ", the band what the meter's update period leaves open."
            if series.unit == "J"
            else ", the band holds 9 of 10 steps."
        )
    )
    if series.unit == "s":
        caption += " Time, not energy: there is no meter, or it was read too seldom for this."
    else:
        caption += (
            " Energy before the first step and after the last is not in it; the figure per step at "
            "the top is all of the run's energy over its steps."
        )
    return Chart(caption, drawn, columns, rows)


def _change_labels(
    begins: list[float], levels: list[float], span: tuple[float, float]
) -> list[Fragment]:
    """By how much the level changed, beside each change; where there is no room, nothing."""
    texts = [
        f"{100 * (after / before - 1) if before else 0.0:+.0f} %"
        for before, after in pairwise(levels)
    ][: len(begins)]
    places = in_rows([(at - span[0]) / (span[1] - span[0]) for at in begins], texts, _CHANGE_ROWS)
    return [
        {
            "x": at,
            "y": 1,
            "xref": "x",
            "yref": "paper",
            "text": text,
            "showarrow": False,
            "xanchor": "left" if place.is_right else "right",
            "yanchor": "top",
            "xshift": LABEL_GAP if place.is_right else -LABEL_GAP,
            "yshift": -LINE * place.row,
        }
        for at, text, place in zip(begins, texts, places, strict=True)
        if place is not None
    ]
