"""How full is it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from probe.report.sentences import short

from ..chart_data import Chart, Column, Level
from .style import DASHES, SERIES, VERMILLION, figure, listed, plain
from .timescale import TimeScale

QUANTITIES = ("memory_used",)
_GIB = float(1 << 30)
_LINES = 6


def memory(found: Sequence[Level], scale: TimeScale, span: tuple[float, float] | None) -> Chart:
    """Memory in use over time, of the fullest devices."""
    columns = [
        Column("time_s", "time (s)"),
        Column("device", "device"),
        Column("quantity", "what"),
        Column("value", "bytes"),
    ]
    known = [one for one in found if len(one.value) and np.isfinite(one.value).any()]
    rows = [
        [round(float(t), 4), one.device, one.quantity, value]
        for one in known
        for t, value in zip(one.time_s, listed(one.value), strict=True)
        if value is not None
    ]
    if not known:
        return Chart("No use of memory was read in this time.", None, columns, rows)
    known.sort(key=lambda one: -float(np.nanmax(one.value)))
    gpus = [one for one in known if one.is_accelerator]
    if len(gpus) > _LINES - 2:  # the fullest and the emptiest stand for all
        known = [gpus[0], gpus[-1], *(one for one in known if one not in gpus)]
    shown = known[:_LINES]
    data: list[dict[str, Any]] = []
    for place, one in enumerate(shown):
        x, y = scale.values(one.time_s), listed(one.value / _GIB)
        name = plain(_name(one), 30)
        colour = SERIES[place % len(SERIES)]
        data.append(
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
        )
        last = max(i for i, value in enumerate(y) if value is not None)
        data.append(
            {
                "type": "scatter",
                "mode": "text",
                "x": [x[last]],
                "y": [y[last]],
                "text": [name],
                "hoverinfo": "skip",
                "textposition": "top left" if place % 2 == 0 else "bottom left",
                "textfont": {"color": colour, "size": 12},
                "cliponaxis": False,
            }
        )
    limits = sorted({one.limit for one in shown if one.limit})
    ends = [data[0]["x"][0], data[0]["x"][-1]]
    for limit in limits[:2]:
        data.append(
            {
                "type": "scatter",
                "mode": "lines+text",
                "x": ends,
                "y": [limit / _GIB] * 2,
                "text": [f"all of it, {limit / _GIB:.0f} GiB", ""],
                "textposition": "top right",
                "hoverinfo": "skip",
                "line": {"color": VERMILLION, "width": 1.2, "dash": "dot"},
            }
        )
    most = max([float(np.nanmax(one.value)) for one in shown] + limits[:2]) / _GIB
    whole = (
        min(float(one.time_s[0]) for one in shown),
        max(float(one.time_s[-1]) for one in shown),
    )
    drawn = figure(
        data,
        height=260,
        xaxis=scale.axis(span or whole),
        yaxis={"title": {"text": "GiB", "standoff": 4}, "range": [0, 1.15 * most]},
    )
    drawn["layout"]["meta"] = {"unit_s": scale.seconds}
    drawn["layout"]["hovermode"] = "x unified"
    top = shown[0]
    peak = float(np.nanmax(top.value))
    caption = f"{short(_name(top), 40)}: at most {peak / _GIB:.2f} GiB"
    caption += f", {100 * peak / top.limit:.0f} % of what it has." if top.limit else "."
    if len(gpus) > _LINES - 2:
        caption += f" Of {len(gpus)} GPUs the fullest and the emptiest are drawn."
    return Chart(caption, drawn, columns, rows)


def _name(one: Level) -> str:
    return {"process": "this run's processes", "host": "the whole machine"}.get(
        one.device.rpartition("/")[2], one.device
    )
