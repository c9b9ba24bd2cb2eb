"""Power over time: what happened overnight?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from probe.report.model import JsonValue
from probe.report.numbers import duration, number

from ..chart_data import MODELLED, Cell, Chart, Column, Floats, Fragment, LazyRows, Power
from .style import BAND, BLUE, SERIES, VERMILION, TimeScale, axis, figure, legend, listed, plain

LINES = 4  # up to so many devices have their own lines; more are drawn as median and range
_Line = Sequence[float | None]


def power(
    watts: Power | None, scale: TimeScale, span: tuple[float, float] | None, *, live: bool = False
) -> Chart:
    """Mean power of each device with the range in each bin; many devices as median and range."""
    columns, rows = table(watts)
    if watts is None:
        return Chart(
            "Waiting for the first readings of a meter."
            if live
            else "No meter of power or energy was read in this time.",
            None,
            columns,
            rows,
        )
    apart = _model_beside(watts)
    metered = part_of(watts, drawn_devices(watts))
    few = len(metered.devices) <= LINES
    data = lines(metered, scale) if few else together(metered, scale)
    caps = sorted({cap for cap in metered.cap_w if cap is not None})
    ends = [scale.at(float(watts.edges_s[0])), scale.at(float(watts.edges_s[-1]))]
    data += [
        {
            "type": "scatter",
            "mode": "lines",
            "x": ends,
            "y": [cap, cap],
            "name": f"power limit {cap:.0f} W",
            "line": {"color": VERMILION, "width": 1.2, "dash": "dot"},
            "hoverinfo": "skip",
        }
        for cap in caps[:3]
    ]
    below: dict[str, JsonValue] = {"xaxis": scale.axis(span or whole_span(watts))}
    if apart is not None:  # on a scale of its own, beneath
        data += [{**trace, "yaxis": "y2"} for trace in lines(apart, scale)]
        below["yaxis2"] = axis(
            "W, by a model", range=[0, _top(apart, [])], domain=[0, 0.22], nticks=3
        )
        below["xaxis"] = scale.axis(span or whole_span(watts), anchor="y2")
    drawn = figure(
        data,
        x="",
        y="",
        height=height(model_beside=apart is not None),
        yaxis={
            "title": {"text": "W", "standoff": 4},
            "range": [0, _top(metered, caps)],
            "domain": [0 if apart is None else 0.34, 1],
        },
        meta={"unit_s": scale.seconds, "newest_s": round(watts.newest_s, 6)},
        hovermode="x unified" if few else "closest",
        showlegend=True,
        legend=legend(),
        **below,
    )
    return Chart(_caption(watts), drawn, columns, rows)


def height(*, model_beside: bool) -> int:
    """Pixels of the figure."""
    return 400 if model_beside else 300


def part_of(watts: Power, chosen: Sequence[int]) -> Power:
    """Some of the devices."""
    return replace(
        watts,
        devices=[watts.devices[i] for i in chosen],
        provenance=[watts.provenance[i] for i in chosen],
        mean_w=watts.mean_w[list(chosen)],
        low_w=watts.low_w[list(chosen)],
        high_w=watts.high_w[list(chosen)],
        cap_w=[watts.cap_w[i] for i in chosen],
    )


def _model_beside(watts: Power) -> Power | None:
    """What only a model says, where there are meters, too."""
    metered = drawn_devices(watts)
    rest = [i for i in range(len(watts.devices)) if i not in metered]
    rest = [i for i in rest if np.isfinite(watts.mean_w[i]).any()][:LINES]
    return part_of(watts, rest) if rest else None


def _top(watts: Power, caps: Sequence[float]) -> float:
    """The end of an axis: room for labels above the highest."""
    highest = [float(np.nanmax(m, initial=0.0)) for m in (watts.high_w, watts.mean_w)]
    return 1.15 * max([*highest, *caps]) or 1.0


def drawn_devices(watts: Power) -> list[int]:
    """Places of the measured devices, or of all where only models speak."""
    measured = [i for i, kind in enumerate(watts.provenance) if kind != MODELLED]
    return measured or list(range(len(watts.devices)))


def device_means(mean_w: Floats) -> Floats:
    """Mean of each row; NaN for a device that was never read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(mean_w, axis=1))


def whole_span(watts: Power) -> tuple[float, float]:
    """Seconds from the first bin to the last."""
    return float(watts.edges_s[0]), float(watts.edges_s[-1])


def lines(watts: Power, scale: TimeScale) -> list[Fragment]:
    """Traces of each device: its mean, and the range in each bin."""
    data: list[Fragment] = []
    x, step = _stairs(watts, scale)
    for place, device in enumerate(watts.devices):
        modelled = watts.provenance[place] == MODELLED
        colour = SERIES[place % len(SERIES)]
        if not modelled and _spread(watts, place):
            data += _band(x, step(watts.low_w[place]), step(watts.high_w[place]), _faint(colour))
        name = plain(device, 24) + (" (model)" if modelled else "")
        y = step(watts.mean_w[place])
        data += [
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": y,
                "connectgaps": False,
                "name": name,
                "line": {"color": colour, "width": 1.8, "dash": "dash" if modelled else "solid"},
                "hovertemplate": "%{y:.4g} W",
            }
        ]
    return data


def together(watts: Power, scale: TimeScale) -> list[Fragment]:
    """Traces of all devices as their median, least and most."""
    chosen = drawn_devices(watts)
    x, step = _stairs(watts, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin in which no device was read
        median = np.nanmedian(watts.mean_w[chosen], axis=0)
        low, high = (of(watts.mean_w[chosen], axis=0) for of in (np.nanmin, np.nanmax))
    y = step(median)
    return [
        *_band(x, step(low), step(high), BAND),
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "connectgaps": False,
            "name": f"median of {len(chosen)} (band: all)",
            "line": {"color": BLUE, "width": 1.8},
            "hovertemplate": "%{y:.4g} W",
        },
    ]


def _stairs(watts: Power, scale: TimeScale) -> tuple[_Line, Callable[[Floats], _Line]]:
    """Bins as steps: both ends of each."""
    edges = watts.edges_s
    x = scale.values(np.repeat(edges, 2)[1:-1])
    return x, lambda values: listed(np.repeat(values, 2))


def _band(x: _Line, low: _Line, high: _Line, fill: str) -> list[Fragment]:
    """One closed shape per stretch without a gap: plotly fills across missing values."""
    data: list[Fragment] = []
    begin = None
    xs: list[float | None] = []
    ys: list[float | None] = []
    read = [a is not None and b is not None for a, b in zip(low, high, strict=True)]
    for place in range(len(x) + 1):
        inside = place < len(x) and read[place]
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
                "showlegend": False,
            }
        )
    return data


def _spread(watts: Power, place: int) -> bool:
    apart = watts.high_w[place] - watts.low_w[place]
    return bool(np.isfinite(apart).any() and np.nanmax(apart) > 0)


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _caption(watts: Power) -> str:
    chosen = drawn_devices(watts)
    means = device_means(watts.mean_w[chosen])
    read_w = means[np.isfinite(means)]
    bin_s = float(watts.edges_s[1] - watts.edges_s[0])
    sentences = [
        f"On average {number(float(read_w.mean()))} W per device"
        if len(read_w) > 1
        else f"On average {number(float(read_w[0]))} W"
        if len(read_w)
        else "No power is known"
    ]
    sentences[0] += f", in steps of {duration(bin_s)}."
    missing = float(np.mean(~np.isfinite(watts.mean_w[chosen])))
    if missing > 0.002:
        sentences.append(f"{100 * missing:.0f} % of the time has no reading; gaps are left open.")
    if any(kind == MODELLED for kind in watts.provenance):
        sentences.append("Dashed lines are modelled, not measured.")
    if len(chosen) <= LINES and any(_spread(watts, i) for i in chosen):
        sentences.append("The band is what was seen within a step.")
    return " ".join(sentences)


def table(watts: Power | None) -> tuple[list[Column], Sequence[Sequence[Cell]]]:
    """(columns, a row for each device and bin)."""
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
    if watts is None:
        return columns, []
    return columns, LazyRows(lambda: _rows(watts))


def _rows(watts: Power) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for place, device in enumerate(watts.devices):
        lows, means, highs = (listed(m[place]) for m in (watts.low_w, watts.mean_w, watts.high_w))
        for i, (low, mean, high) in enumerate(zip(lows, means, highs, strict=True)):
            rows.append(
                [
                    round(float(watts.edges_s[i]), 4),
                    round(float(watts.edges_s[i + 1]), 4),
                    device,
                    watts.provenance[place],
                    mean,
                    low,
                    high,
                    watts.cap_w[place],
                ]
            )
    return rows
