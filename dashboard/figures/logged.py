"""A logged value over steps, samples, time or joules: does it still learn, and for how much?"""

from __future__ import annotations

from collections.abc import Sequence

from probe.report.numbers import duration, energy, joule_unit, number
from probe.report.sentences import short

from ..chart_data import MODELLED, Chart, Column, Fragment, LoggedSeries
from .style import BLUE, TimeScale, figure, listed, plain

AXES = {"steps": "steps", "samples": "samples", "tokens": "tokens", "time": "time", "energy": "J"}
"""What values are drawn over → the word on the control."""


def logged(series: LoggedSeries | None) -> Chart:
    """The values, thin, and their running mean."""
    columns = [
        Column("x", series.over if series else "x"),
        Column("value", series.name if series else "value"),
        Column("mean", "running mean"),
    ]
    if series is None or not len(series.x):
        return Chart("Nothing was logged in this time: run.log(loss=loss).", None, columns)
    factor, label = axis_of(series)
    x = listed(series.x / factor)
    rows = [
        [round(float(at), 6), float(value), float(mean)]
        for at, value, mean in zip(series.x, series.value, series.smooth, strict=True)
    ]
    is_smoothed = series.window > 1
    name = plain(series.name, 40)
    data: list[Fragment] = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(x) < 60 else "lines",
            "x": x,
            "y": listed(series.value),
            "name": "as logged",
            "opacity": 0.4 if is_smoothed else 1.0,
            "line": {"color": BLUE, "width": 1 if is_smoothed else 2},
            "marker": {"size": 5},
            "hovertemplate": f"%{{x:.4g}}: %{{y:.5g}}<extra>{name}</extra>",
        }
    ]
    if is_smoothed:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": listed(series.smooth),
                "name": "running mean",
                "line": {"color": BLUE, "width": 2.4},
                "hovertemplate": "%{x:.4g}: %{y:.5g}<extra>mean</extra>",
            }
        )
    drawn = figure(data, height=300, x=label, y=name, meta={"over": series.over})
    return Chart(_caption(series), drawn, columns, rows)


def axis_of(series: LoggedSeries) -> tuple[float, str]:
    """(what one unit of the axis is, its title)."""
    most = float(series.x[-1])
    if series.over == "time":
        scale = TimeScale.of(most)
        return scale.seconds, f"time since the start ({scale.unit})"
    if series.over == "energy":
        factor, unit = joule_unit(most)
        by = ", by a model" if series.provenance == MODELLED else ""
        return factor, f"energy so far ({unit}){by}"
    return 1.0, "optimizer step" if series.over == "steps" else f"{series.over} trained"


def _caption(series: LoggedSeries) -> str:
    last = float(series.smooth[-1])
    name = short(series.name, 60)
    sentence = f"{name} {number(float(series.smooth[0]))} at first, {number(last)} at last"
    spent = float(series.x[-1])
    if series.over == "energy":
        by = " of a model" if series.provenance == MODELLED else ""
        sentence += f", for {energy(spent)}{by}"
    elif series.over == "time":
        sentence += f", after {duration(spent)}"
    else:
        sentence += f", after {spent:.0f} {series.over}"
    parts = [sentence + "."]
    if series.window > 1:
        parts.append(f"Thick: the mean of {series.window} values.")
    if series.not_finite:
        parts.append(f"{series.not_finite} of {series.count} values are not finite.")
    return " ".join(parts)


def offered(axes: Sequence[str]) -> list[tuple[str, str]]:
    """(key, word) of each axis that there is."""
    return [(axis, AXES[axis]) for axis in axes if axis in AXES]
