"""Bars that begin where the one before ended, and all of them together at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probe.compare.gain import Interval, Verdict

from ..chart_data import Figure, Fragment
from .style import GAIN, LOSS, UNSURE, beside, figure, listed, whiskers

_COLOURS = {Verdict.GAIN: GAIN, Verdict.LOSS: LOSS}


class Part(NamedTuple):
    """What a part saved, or all together, with the 95 % interval."""

    name: str
    gain: float
    interval: Interval | None
    verdict: Verdict


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
    words = [f"  {text(bar.gain)}" for bar in bars]
    data: list[Fragment] = [
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
            "text": words,
            "cliponaxis": False,
            "hoverinfo": "skip",
        },
    ]
    return figure(
        data,
        height=90 + 30 * len(bars),
        x=f"saved ({unit})",
        margin=beside(words),
        bargap=0.35,
        xaxis={
            "range": [left - 0.03 * width, right],
            "fixedrange": True,
            "nticks": 5,
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
