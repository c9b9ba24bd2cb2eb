"""How full is it?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probe.report.sentences import short

from ..chart_data import Cell, Chart, Column, Fragment, Level
from .style import DASHES, SERIES, VERMILION, TimeScale, figure, legend, listed, plain

QUANTITIES = ("memory_used",)
_GIB = float(1 << 30)
_MAX_LINES = 6
HEIGHT = 310  # with room for a legend of seven lines on a phone


def memory(levels: Sequence[Level], scale: TimeScale, span: tuple[float, float] | None) -> Chart:
    """Memory in use over time, of the fullest devices."""
    columns = [
        Column("time_s", "time (s)"),
        Column("device", "device"),
        Column("quantity", "what"),
        Column("value", "bytes"),
    ]
    read = [level for level in levels if len(level.value) and np.isfinite(level.value).any()]
    rows: list[list[Cell]] = [
        [round(float(t), 4), level.device, level.quantity, value]
        for level in read
        for t, value in zip(level.time_s, listed(level.value), strict=True)
        if value is not None
    ]
    if any(level.device == "process" for level in read):  # which holds all ranks' own
        read = [level for level in read if not level.device.startswith("rank")]
    if not read:
        return Chart("No use of memory was read in this time.", None, columns, rows)
    read.sort(key=lambda level: -float(np.nanmax(level.value)))
    gpus = [level for level in read if level.is_accelerator]
    if len(gpus) > _MAX_LINES - 2:  # only the fullest and the emptiest are drawn
        read = [gpus[0], gpus[-1], *(level for level in read if level not in gpus)]
    shown = read[:_MAX_LINES]
    data: list[Fragment] = []
    for place, level in enumerate(shown):
        x, y = scale.values(level.time_s), listed(level.value / _GIB)
        name = plain(_name(level), 30)
        colour = SERIES[place % len(SERIES)]
        data += [
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": y,
                "name": name,
                "line": {"color": colour, "width": 1.8, "dash": DASHES[place]},
                "connectgaps": False,
                "hovertemplate": "%{y:.3f} GiB",
            }
        ]
    limits = sorted({level.limit for level in shown if level.limit})
    ends = scale.values(shown[0].time_s[[0, -1]])
    data += [
        {
            "type": "scatter",
            "mode": "lines",
            "x": ends,
            "y": [limit / _GIB] * 2,
            "name": f"all of a GPU's, {limit / _GIB:.0f} GiB",
            "hoverinfo": "skip",
            "line": {"color": VERMILION, "width": 1.2, "dash": "dot"},
        }
        for limit in limits[:2]
    ]
    most = max([float(np.nanmax(level.value)) for level in shown] + limits[:2]) / _GIB
    span_read = (
        min(float(level.time_s[0]) for level in shown),
        max(float(level.time_s[-1]) for level in shown),
    )
    drawn = figure(
        data,
        height=HEIGHT,
        xaxis=scale.axis(span or span_read),
        yaxis={"title": {"text": "GiB", "standoff": 4}, "range": [0, 1.15 * most]},
        meta={"unit_s": scale.seconds},
        hovermode="x unified",
        showlegend=True,
        legend=legend(),
    )
    top = shown[0]
    peak = float(np.nanmax(top.value))
    caption = f"{short(_name(top), 40)}: at most {peak / _GIB:.2f} GiB"
    caption += f", {100 * peak / top.limit:.0f} % of what it has." if top.limit else "."
    if len(gpus) > _MAX_LINES - 2:
        caption += f" Of {len(gpus)} GPUs the fullest and the emptiest are drawn."
    return Chart(caption, drawn, columns, rows)


def _name(level: Level) -> str:
    return {"process": "this run's processes", "host": "the whole machine"}.get(
        level.device.rpartition("/")[2], level.device
    )
