"""Power over time, coloured by phase."""

from __future__ import annotations

import numpy as np

from probe.report.numbers import duration, watts
from probe.report.sentences import short

from ..chart_data import Cell, Chart, Column, Fragment, PhasePower
from .style import TimeScale, colour, figure, legend, listed, plain

_LEAST = 1e-3  # of the energy: less is not seen


def phase_power(
    split: PhasePower | None, scale: TimeScale, span: tuple[float, float] | None
) -> Chart:
    """Stacked: the height is the power of all metered devices, the colours are phases."""
    columns = [
        Column("begin_s", "from (s)"),
        Column("end_s", "to (s)"),
        Column("phase", "phase"),
        Column("watts", "power (W)"),
    ]
    if split is None:
        return Chart("No meter, or no phase, was recorded in this time.", None, columns)
    edges = split.edges_s
    rows: list[list[Cell]] = [
        [round(float(edges[i]), 4), round(float(edges[i + 1]), 4), phase, value]
        for place, phase in enumerate(split.phases)
        for i, value in enumerate(listed(split.watts[place]))
        if value
    ]
    joules = np.nansum(split.watts * np.diff(edges), axis=1)
    total = float(joules.sum()) or 1.0
    x = scale.values(np.repeat(edges, 2)[1:-1])
    data: list[Fragment] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": listed(np.repeat(np.nan_to_num(split.watts[place]), 2)),
            "name": plain(phase, 24),
            "stackgroup": "phases",
            "line": {"width": 0.4, "color": colour(phase)},
            "fillcolor": colour(phase),
            "hovertemplate": "%{y:.4g} W",
        }
        for place, phase in enumerate(split.phases)
        if joules[place] > _LEAST * total
    ]
    drawn = figure(
        data,
        height=320,
        xaxis=scale.axis(span or (float(edges[0]), float(edges[-1]))),
        yaxis={"title": {"text": "W", "standoff": 4}, "rangemode": "tozero"},
        meta={"unit_s": scale.seconds},
        hovermode="x unified",
        showlegend=True,
        legend=legend(),
    )
    first = int(np.argmax(joules))
    devices = f"{split.devices} devices together" if split.devices > 1 else "one device"
    metered = np.isfinite(split.watts).all(axis=0)
    mean = float(np.nansum(split.watts)) / max(1, int(metered.sum()))
    caption = (
        f"{watts(mean)} on average, {devices}; {short(split.phases[first], 40)} has "
        f"{100 * joules[first] / total:.0f} % of it. The height is the meter's. Within "
        f"{duration(float(edges[1] - edges[0]))} the phases share it by their time and their "
        "mean power: zoom in to see them apart."
    )
    if split.places is not None:
        caption += f" Phases were looked up at {split.places} places."
    return Chart(caption, drawn, columns, rows)
