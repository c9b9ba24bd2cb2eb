"""The bars of the phases of one device: what is known, and open ranges of what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from probe.report.numbers import duration, energy, interval, number

from ..chart_data import ESTIMATED, MODELLED, PhaseRow
from .style import colour, listed, plain, whiskers


def bars(rows: Sequence[PhaseRow], joules: bool, steps: int, key: str) -> list[dict[str, Any]]:
    """Traces per step, for the axes ``x<key>`` and ``y<key>``; joules, else seconds."""
    total = sum((row.energy_j if joules else row.time_s) or 0.0 for row in rows) or 1.0
    stated = [
        (place, row)
        for place, row in enumerate(rows)
        if (row.energy_j if joules else row.time_s) is not None
    ]
    refused = [
        (place, row)
        for place, row in enumerate(rows)
        if joules and row.energy_j is None and row.bounds_j
    ]
    axes = {"xaxis": f"x{key}", "yaxis": f"y{key}"}
    values = [(row.energy_j if joules else row.time_s) or 0.0 for _, row in stated]
    spans = [row.interval_j if joules else None for _, row in stated]
    solid = {
        "type": "bar",
        "orientation": "h",
        **axes,
        "y": [place for place, _ in stated],
        "x": listed(v / steps for v in values),
        "marker": {
            "color": [colour(row.phase) for _, row in stated],
            "opacity": [
                0.55
                if row.provenance == MODELLED
                else 0.9
                if joules and row.provenance == ESTIMATED
                else 1.0
                for _, row in stated
            ],
            "pattern": {
                "shape": ["/" if row.provenance == MODELLED else "" for _, row in stated],
                "fgopacity": 0.6,
            },
        },
        "error_x": whiskers(
            ((s[1] - v) / steps if s else 0.0 for s, v in zip(spans, values, strict=True)),
            ((v - s[0]) / steps if s else 0.0 for s, v in zip(spans, values, strict=True)),
        ),
        "hovertext": [_hover(row) for _, row in stated],
        "hoverinfo": "text",
    }
    ends = [max(s[1] if s else v, v) / steps for s, v in zip(spans, values, strict=True)]
    labels = {
        "type": "scatter",
        "mode": "text",
        **axes,
        "x": listed(ends),
        "y": [place for place, _ in stated],
        "textposition": "middle right",
        "cliponaxis": False,
        "text": [
            f"  {_text(row, joules, steps)}, {100 * v / total:.0f} %"
            for (_, row), v in zip(stated, values, strict=True)
        ],
        "hoverinfo": "skip",
        "textfont": {"color": "#1d1d1f"},
    }
    # Room for the labels, whatever the values.
    room = {
        "type": "scatter",
        "mode": "markers",
        **axes,
        "hoverinfo": "skip",
        "x": [1.6 * max(ends, default=1.0)],
        "y": [0],
        "marker": {"opacity": 0},
    }
    drawn: list[dict[str, Any]] = [solid, labels, room]
    if refused:
        bounds = [row.bounds_j or (0.0, 0.0) for _, row in refused]
        drawn.append(
            {
                "type": "bar",
                "orientation": "h",
                **axes,
                "y": [place for place, _ in refused],
                "base": listed(low / steps for low, _ in bounds),
                "x": listed((high - low) / steps for low, high in bounds),
                "marker": {
                    "color": "rgba(0,0,0,0)",
                    "line": {"color": "#808080", "width": 1.5},
                    "pattern": {"shape": ".", "fgcolor": "#808080", "fgopacity": 0.5},
                },
                "hovertext": [_hover(row) for _, row in refused],
                "hoverinfo": "text",
            }
        )
    return drawn


def _text(row: PhaseRow, joules: bool, steps: int) -> str:
    if not joules:
        return duration((row.time_s or 0.0) / steps)
    half = (row.interval_j[1] - row.interval_j[0]) / 2 / steps if row.interval_j else None
    return energy((row.energy_j or 0.0) / steps, half)


def _hover(row: PhaseRow) -> str:
    lines = [plain(row.phase)]
    if row.energy_j is not None:
        lines.append(f"{energy(row.energy_j)} in all")
        if row.interval_j:
            lines.append(f"95 %: {interval(*row.interval_j)} J")
    elif row.bounds_j:
        lines.append(f"cannot be told apart; between {interval(*row.bounds_j)} J")
    if row.time_s is not None:
        lines.append(duration(row.time_s))
    if row.power_w is not None:
        lines.append(f"{number(row.power_w)} W")
    lines.append(
        row.provenance
        + (
            f", {row.status.replace('_', ' ')}"
            if row.energy_j is not None and row.provenance != MODELLED
            else ""
        )
    )
    return "<br>".join(lines)
