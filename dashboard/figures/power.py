"""Power over time: what happened overnight?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from probe.report.numbers import duration, number
from probe.report.sentences import short

from ..chart_data import MODELLED, Chart, Column, Floats, Power
from .style import BAND, BLUE, SCALE, SERIES, VERMILLION, figure, listed, plain
from .timescale import TimeScale

LINES = 4  # devices that are drawn one by one; of more, their median and range
_HOTTEST_ROWS = 64


def power(
    found: Power | None, scale: TimeScale, span: tuple[float, float] | None, *, live: bool = False
) -> Chart:
    """Mean power of each device with the range in each bin; many devices as median and range."""
    columns, rows = _table(found)
    if found is None:
        return Chart(
            "Waiting for the first readings of a meter."
            if live
            else "No meter of power or energy was read in this time.",
            None,
            columns,
            rows,
        )
    data = lines(found, scale) if len(found.devices) <= LINES else together(found, scale)
    caps = sorted({cap for cap in found.cap_w if cap is not None})
    ends = [scale.at(float(found.edges_s[0])), scale.at(float(found.edges_s[-1]))]
    for cap in caps[:3]:
        data.append(
            {
                "type": "scatter",
                "mode": "lines+text",
                "x": ends,
                "y": [cap, cap],
                "line": {"color": VERMILLION, "width": 1.2, "dash": "dot"},
                "text": [f"cap {cap:.0f} W", ""],
                "textposition": "top right",
                "hoverinfo": "skip",
            }
        )
    top = 1.15 * max(
        [float(np.nanmax(found.high_w, initial=0.0)), float(np.nanmax(found.mean_w)), *caps]
    )
    drawn = figure(
        data,
        height=300,
        xaxis=scale.axis(span or _whole(found)),
        yaxis={"title": {"text": "W", "standoff": 4}, "range": [0, top]},
    )
    drawn["layout"]["meta"] = {"unit_s": scale.seconds, "newest_s": round(found.newest_s, 6)}
    drawn["layout"]["hovermode"] = "x unified" if len(found.devices) <= LINES else "closest"
    return Chart(_caption(found), drawn, columns, rows)


def heatmap(found: Power | None, scale: TimeScale, span: tuple[float, float] | None) -> Chart:
    """Devices × time, the hungriest first."""
    columns, rows = _table(found)
    if found is None or len(found.devices) < 2:
        return Chart("Only one device: there is nothing to hold beside it.", None, columns, rows)
    measured = [i for i, kind in enumerate(found.provenance) if kind != MODELLED]
    chosen = measured if len(measured) > 1 else list(range(len(found.devices)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a device that was never read
        means = np.nan_to_num(np.nanmean(found.mean_w[chosen], axis=1))
    order = [chosen[i] for i in np.argsort(means)[::-1]][:_HOTTEST_ROWS]
    middle = (found.edges_s[:-1] + found.edges_s[1:]) / 2
    across = scale.axis(span or _whole(found), showgrid=False)
    drawn = figure(
        [
            {
                "type": "heatmap",
                "x": scale.values(middle),
                "y": list(range(len(order))),
                "z": [listed(found.mean_w[i]) for i in order],
                "colorscale": SCALE,
                "zmin": _quantile(found.mean_w[order], 0.01),
                "zmax": _quantile(found.mean_w[order], 0.99),
                "colorbar": {"title": {"text": "W"}, "thickness": 12, "outlinewidth": 0},
                "hovertemplate": "%{customdata}<br>%{x} "
                + scale.unit
                + "<br>%{z:.4g} W<extra></extra>",
                "customdata": [[plain(found.devices[i])] * len(middle) for i in order],
            }
        ],
        height=90 + 24 * len(order),
        xaxis=across,
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(order))),
            "showgrid": False,
            "ticktext": [plain(found.devices[i], 24) for i in order],
        },
    )
    drawn["layout"]["meta"] = {"unit_s": scale.seconds}
    sorted_ = np.sort(means)[::-1]
    first, last = (short(found.devices[i], 40) for i in (order[0], order[-1]))
    apart = 100 * (sorted_[0] / sorted_[-1] - 1) if sorted_[-1] > 0 else float("nan")
    caption = (
        f"{first} draws most, {last} least: {apart:.0f} % apart in the mean. "
        if np.isfinite(apart)
        else f"{first} draws most. "
    )
    more = len(chosen) - len(order)
    return Chart(
        caption
        + "Empty places are times without a reading."
        + (f" {more} more devices stand in the table." if more > 0 else ""),
        drawn,
        columns,
        rows,
    )


def _quantile(values: Floats, share: float) -> float:
    """A single wild reading must not take all the colours."""
    return float(np.nanquantile(values, share)) if np.isfinite(values).any() else 0.0


def _whole(found: Power) -> tuple[float, float]:
    return float(found.edges_s[0]), float(found.edges_s[-1])


def lines(found: Power, scale: TimeScale) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = []
    x, step = _stairs(found, scale)
    for place, device in enumerate(found.devices):
        modelled = found.provenance[place] == MODELLED
        colour = SERIES[place % len(SERIES)]
        if not modelled and _spread(found, place):
            data += _band(x, step(found.low_w[place]), step(found.high_w[place]), _faint(colour))
        y = step(found.mean_w[place])
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": y,
                "connectgaps": False,
                "name": plain(device, 24) + (" (model)" if modelled else ""),
                "line": {"color": colour, "width": 1.8, "dash": "dash" if modelled else "solid"},
                "hovertemplate": "%{y:.4g} W",
            }
        )
        data += _label(x, y, plain(device, 24) + (" (model)" if modelled else ""), colour)
    return data


def together(found: Power, scale: TimeScale) -> list[dict[str, Any]]:
    measured = [i for i, kind in enumerate(found.provenance) if kind != MODELLED]
    chosen = measured or list(range(len(found.devices)))
    x, step = _stairs(found, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin in which nobody was read
        median = np.nanmedian(found.mean_w[chosen], axis=0)
        low, high = (of(found.mean_w[chosen], axis=0) for of in (np.nanmin, np.nanmax))
    y = step(median)
    return [
        *_band(x, step(low), step(high), BAND),
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "connectgaps": False,
            "name": f"median of {len(chosen)}",
            "line": {"color": BLUE, "width": 1.8},
            "hovertemplate": "%{y:.4g} W",
        },
        *_label(x, y, f"median of {len(chosen)} devices, least to most", BLUE),
    ]


def _stairs(found: Power, scale: TimeScale) -> tuple[list[float | None], Any]:
    """Bins as steps: both ends of each."""
    edges = found.edges_s
    x = scale.values(np.repeat(edges, 2)[1:-1])
    return x, lambda values: listed(np.repeat(values, 2))


def _band(x: list[Any], low: list[Any], high: list[Any], fill: str) -> list[dict[str, Any]]:
    """One closed shape per stretch without a gap: plotly fills across missing values."""
    data: list[dict[str, Any]] = []
    begin = None
    xs: list[Any] = []
    ys: list[Any] = []
    known = [a is not None and b is not None for a, b in zip(low, high, strict=True)]
    for place in range(len(x) + 1):
        inside = place < len(x) and known[place]
        if inside and begin is None:
            begin = place
        elif not inside and begin is not None:
            part = range(begin, place)
            xs += [x[i] for i in part] + [x[i] for i in reversed(part)] + [None]
            ys += [low[i] for i in part] + [high[i] for i in reversed(part)] + [None]
            begin = None
    if xs:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": xs,
                "y": ys,
                "fill": "toself",
                "fillcolor": fill,
                "line": {"width": 0},
                "hoverinfo": "skip",
            }
        )
    return data


def _label(x: list[Any], y: list[Any], text: str, colour: str) -> list[dict[str, Any]]:
    """The name beside the line's end: nobody has to match colours with a legend."""
    known = [i for i, value in enumerate(y) if value is not None]
    if not known:
        return []
    at = known[-1]
    return [
        {
            "type": "scatter",
            "mode": "text",
            "x": [x[at]],
            "y": [y[at]],
            "text": [text],
            "textposition": "top left",
            "textfont": {"color": colour, "size": 12},
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
    ]


def _spread(found: Power, place: int) -> bool:
    apart = found.high_w[place] - found.low_w[place]
    return bool(np.isfinite(apart).any() and np.nanmax(apart) > 0)


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _caption(found: Power) -> str:
    measured = [i for i, kind in enumerate(found.provenance) if kind != MODELLED]
    chosen = measured or list(range(len(found.devices)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = np.nanmean(found.mean_w[chosen], axis=1)
    known = means[np.isfinite(means)]
    bin_s = float(found.edges_s[1] - found.edges_s[0])
    told = [
        f"On average {number(float(known.mean()))} W per device"
        if len(known) > 1
        else f"On average {number(float(known[0]))} W"
        if len(known)
        else "No power is known"
    ]
    told[0] += f", in steps of {duration(bin_s)}."
    missing = float(np.mean(~np.isfinite(found.mean_w[chosen])))
    if missing > 0.002:
        told.append(f"{100 * missing:.0f} % of it has no reading: a gap is a gap.")
    if any(kind == MODELLED for kind in found.provenance):
        told.append("Broken lines are a model's.")
    if len(found.devices) <= LINES and any(_spread(found, i) for i in range(len(found.devices))):
        told.append("The band is what was seen within a step.")
    return " ".join(told)


def _table(found: Power | None) -> tuple[list[Column], list[list[Any]]]:
    columns = [
        Column("begin_s", "from (s)"),
        Column("end_s", "to (s)"),
        Column("device", "device"),
        Column("provenance", "provenance"),
        Column("mean_w", "mean (W)"),
        Column("low_w", "least (W)"),
        Column("high_w", "most (W)"),
        Column("cap_w", "cap (W)"),
    ]
    if found is None:
        return columns, []
    rows = []
    for place, device in enumerate(found.devices):
        lows, means, highs = (listed(m[place]) for m in (found.low_w, found.mean_w, found.high_w))
        for i, (low, mean, high) in enumerate(zip(lows, means, highs, strict=True)):
            rows.append(
                [
                    round(float(found.edges_s[i]), 4),
                    round(float(found.edges_s[i + 1]), 4),
                    device,
                    found.provenance[place],
                    mean,
                    low,
                    high,
                    found.cap_w[place],
                ]
            )
    return columns, rows
