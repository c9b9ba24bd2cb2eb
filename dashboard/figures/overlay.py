"""A logged value of several runs in one picture: who gets further with fewer joules?"""

from __future__ import annotations

from collections.abc import Sequence

from probe.report.numbers import energy, number
from probe.report.sentences import short

from ..chart_data import MODELLED, Cell, Chart, Column, Fragment, LoggedSeries
from .logged import axis_of
from .style import DASHES, SERIES, figure, legend, listed, plain

Named = tuple[str, str, LoggedSeries]  # side, id of the run, its values


def overlay(runs: Sequence[Named], of: int) -> Chart:
    """Running means of one value, a colour for each side.

    Args:
        runs: those that logged it.
        of: how many runs there are.
    """
    columns = [
        Column("side", "side"),
        Column("run", "run"),
        Column("x", runs[0][2].over if runs else "x"),
        Column("value", runs[0][2].name if runs else "value"),
    ]
    if not runs:
        return Chart("No run logged anything: run.log(loss=loss).", None, columns)
    sides = list(dict.fromkeys(side for side, _, _ in runs))
    longest = max((series for _, _, series in runs), key=lambda series: float(series.x[-1]))
    factor, label = axis_of(longest)
    data: list[Fragment] = []
    rows: list[list[Cell]] = []
    for side, run_id, series in runs:
        place = sides.index(side)
        first = not any(trace.get("legendgroup") == side for trace in data)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": listed(series.x / factor),
                "y": listed(series.smooth),
                "name": plain(side, 30),
                "legendgroup": side,
                "showlegend": first,
                "line": {
                    "color": SERIES[place % len(SERIES)],
                    "width": 2,
                    "dash": DASHES[place % len(DASHES)],
                },
                "hovertemplate": f"%{{x:.4g}}: %{{y:.5g}}<extra>{plain(run_id, 40)}</extra>",
            }
        )
        rows += [
            [side, run_id, float(x), float(value)]
            for x, value in zip(series.x, series.smooth, strict=True)
        ]
    drawn = figure(
        data,
        height=360,
        x=label,
        y=plain(longest.name, 40),
        showlegend=True,
        legend=legend(),
        meta={"over": longest.over},
    )
    return Chart(_caption(runs, sides, of), drawn, columns, rows)


def _caption(runs: Sequence[Named], sides: Sequence[str], of: int) -> str:
    parts = []
    for side in sides:
        last = [series for name, _, series in runs if name == side]
        value = sum(float(series.smooth[-1]) for series in last) / len(last)
        spent = sum(float(series.x[-1]) for series in last) / len(last)
        words = f"{short(side, 40)} ends at {number(value)}"
        if last[0].over == "energy":
            words += f" after {energy(spent)}"
        parts.append(words)
    caption = "; ".join(parts) + "."
    if any(series.window > 1 for _, _, series in runs):
        caption += " Lines are running means."
    if any(series.provenance == MODELLED for _, _, series in runs):
        caption += " Joules of a model, not measured."
    if len(runs) < of:
        caption += f" {len(runs)} of {of} runs are drawn: others did not log it, or have no meter."
    return caption
