"""Energy against time: what should I pick?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probe.compare.gain import Gain, closed
from probe.compare.model import ComparisonReport
from probe.model import Provenance
from probe.report.numbers import duration, energy
from probe.report.sentences import short

from ..chart_data import Chart, Column
from .style import GREY, SERIES, figure, listed, plain

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon")


def pareto(report: ComparisonReport) -> Chart:
    """Each side by time and energy, with lines of the same energy × delay product (EDP)."""
    columns = [
        Column("name", "name"),
        Column("time_s", "time (s)"),
        Column("energy_j", "energy (J)"),
        Column("edp", "energy × delay (J·s)"),
        Column("quality", "quality"),
        Column("best", "no other is better in both"),
    ]
    points = _points(report)
    if not points:
        return Chart(
            "No energy is known, so there is nothing to weigh against time.", None, columns
        )
    front = {p.name for p in points if not any(p.worse_than(other) for other in points)}
    rows = [
        [p.name, p.time_s, p.energy_j, p.time_s * p.energy_j, p.quality, p.name in front]
        for p in points
    ]
    times = [p.time_s for p in points]
    energies = [p.energy_j for p in points]
    span = 0.12
    low_t, high_t = min(times) * (1 - span), max(times) * (1 + span)
    low_e, high_e = min(energies) * (1 - span), max(energies) * (1 + span)
    data: list[dict[str, Any]] = []
    for factor in (0.5, 0.75, 1.0, 1.5, 2.0):
        edp = times[0] * energies[0] * factor
        x = np.linspace(low_t, high_t, 60)
        y = edp / x
        keep = (y >= low_e) & (y <= high_e)
        if keep.sum() < 8:
            continue
        label = int(0.6 * keep.sum())
        data += [
            {
                "type": "scatter",
                "mode": "lines",
                "x": listed(x[keep]),
                "y": listed(y[keep]),
                "hoverinfo": "skip",
                "line": {"color": GREY, "width": 1, "dash": "dot"},
            },
            {
                "type": "scatter",
                "mode": "text",
                "x": listed(x[keep][label : label + 1]),
                "y": listed(y[keep][label : label + 1]),
                "textposition": "top right",
                "text": [f"{factor:g} × the base's EDP"],
                "hoverinfo": "skip",
                "textfont": {"size": 11, "color": GREY},
            },
        ]
    for place, point in enumerate(points):
        quality = f"<br>quality {point.quality:.4g}" if point.quality is not None else ""
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [point.time_s],
                "y": [point.energy_j],
                "text": [plain(point.name, 24)],
                "textposition": "top center",
                "cliponaxis": False,
                "marker": {
                    "size": 12,
                    "color": SERIES[place % len(SERIES)],
                    "symbol": _SYMBOLS[place % len(_SYMBOLS)],
                },
                "error_x": _error_bar(point.time_error),
                "error_y": _error_bar(point.energy_error),
                "hovertext": [
                    f"{plain(point.name)}<br>{duration(point.time_s)}, {energy(point.energy_j)}"
                    + quality
                ],
                "hoverinfo": "text",
            }
        )
    drawn = figure(
        data,
        height=380,
        x="time (s)",
        y="energy (J)",
        xaxis={"range": [low_t, high_t]},
        yaxis={"range": [low_e, high_e]},
    )
    modelled = any(c.energy_j.provenance is Provenance.MODELLED for c in report.comparisons)
    best = sorted(short(name, 60) for name in front)
    caption = (
        f"No side is better in both time and energy than {', '.join(best[:4])}. "
        "Dotted lines join the same energy × delay."
    )
    return Chart(
        caption + (" The energy is modelled, not measured." if modelled else ""),
        drawn,
        columns,
        rows,
    )


def _error_bar(limits: Sequence[float] | None) -> dict[str, Any]:
    if limits is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [limits[1]],
        "arrayminus": [limits[0]],
        "color": "#6b6b70",
        "thickness": 1.2,
        "width": 4,
    }


@dataclass(frozen=True, slots=True)
class _Point:
    """A side; errors are distances to the ends of the interval of what it saved."""

    name: str
    time_s: float
    energy_j: float
    quality: float | None
    time_error: Sequence[float] | None = None
    energy_error: Sequence[float] | None = None

    def worse_than(self, other: _Point) -> bool:
        """In one of both, and better in none."""
        own, theirs = (self.time_s, self.energy_j), (other.time_s, other.energy_j)
        return theirs[0] <= own[0] and theirs[1] <= own[1] and theirs != own


def _points(report: ComparisonReport) -> list[_Point]:
    points: list[_Point] = []
    for pair in report.comparisons:
        time, joules = pair.time_s, pair.energy_j
        if time.base is None or time.other is None or joules.base is None or joules.other is None:
            continue
        if not points:
            points.append(_Point(report.base.name, time.base, joules.base, pair.quality.base))
        points.append(
            _Point(
                pair.other.name,
                time.other,
                joules.other,
                pair.quality.other,
                _errors(time),
                _errors(joules),
            )
        )
    return points


def _errors(saved: Gain) -> Sequence[float] | None:
    """An interval of what was saved is one of what was used, the other way round."""
    limits = closed(saved.interval)
    if limits is None or saved.gain is None:
        return None
    return max(0.0, limits[1] - saved.gain), max(0.0, saved.gain - limits[0])
