"""The bars of the phases of one device: what is known, and open ranges of what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from probe.model import Provenance
from probe.report.model import PhaseRow
from probe.report.numbers import duration, energy, energy_range, watts
from probe.report.phase_tables import how

from ..chart_data import Fragment
from .style import colour, listed, plain, whiskers


def bars(
    rows: Sequence[PhaseRow], joules: bool, steps: int, unit: float
) -> tuple[list[Fragment], list[str]]:
    """Traces per step, and the texts beside them; in units of so many joules, else seconds."""
    per = steps * unit
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
    values = [(row.energy_j if joules else row.time_s) or 0.0 for _, row in stated]
    spans = [row.energy_j_interval if joules else None for _, row in stated]
    solid: Fragment = {
        "type": "bar",
        "orientation": "h",
        "y": [place for place, _ in stated],
        "x": listed(v / per for v in values),
        "marker": {
            "color": [colour(row.phase) for _, row in stated],
            "opacity": [
                0.55
                if row.is_modelled
                else 0.9
                if joules and row.provenance is Provenance.ESTIMATED
                else 1.0
                for _, row in stated
            ],
            "pattern": {
                "shape": ["/" if row.is_modelled else "" for _, row in stated],
                "fgopacity": 0.6,
            },
        },
        "error_x": whiskers(
            ((s[1] - v) / per if s else 0.0 for s, v in zip(spans, values, strict=True)),
            ((v - s[0]) / per if s else 0.0 for s, v in zip(spans, values, strict=True)),
        ),
        "hovertext": [_hover(row) for _, row in stated],
        "hoverinfo": "text",
    }
    ends = [max(s[1] if s else v, v) / per for s, v in zip(spans, values, strict=True)]
    texts = [
        f" {_text(row, joules, steps)}, {100 * v / total:.0f} %"
        for (_, row), v in zip(stated, values, strict=True)
    ]
    labels: Fragment = {
        "type": "scatter",
        "mode": "text",
        "x": listed(ends),
        "y": [place for place, _ in stated],
        "textposition": "middle right",
        "cliponaxis": False,
        "text": texts,
        "hoverinfo": "skip",
        "textfont": {"color": "#1d1d1f", "size": 12},
    }
    drawn: list[Fragment] = [solid, labels]
    if refused:
        bounds = [row.bounds_j or (0.0, 0.0) for _, row in refused]
        drawn.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [place for place, _ in refused],
                "base": listed(low / per for low, _ in bounds),
                "x": listed((high - low) / per for low, high in bounds),
                "marker": {
                    "color": "rgba(0,0,0,0)",
                    "line": {"color": "#808080", "width": 1.5},
                    "pattern": {"shape": ".", "fgcolor": "#808080", "fgopacity": 0.5},
                },
                "hovertext": [_hover(row) for _, row in refused],
                "hoverinfo": "text",
            }
        )
    return drawn, texts


def _text(row: PhaseRow, joules: bool, steps: int) -> str:
    if not joules:
        return duration((row.time_s or 0.0) / steps)
    half = (
        (row.energy_j_interval[1] - row.energy_j_interval[0]) / 2 / steps
        if row.energy_j_interval
        else None
    )
    return energy((row.energy_j or 0.0) / steps, half)


def _hover(row: PhaseRow) -> str:
    lines = [plain(row.phase)]
    if row.energy_j is not None:
        lines.append(f"{energy(row.energy_j)} in all")
        if row.energy_j_interval:
            lines.append(f"95 %: {energy_range(*row.energy_j_interval)}")
    elif row.bounds_j:
        lines.append(f"cannot be told apart; between {energy_range(*row.bounds_j)}")
    if row.time_share is not None:
        lines.append(duration(row.time_s))
    if row.power_w is not None:
        lines.append(watts(row.power_w))
    if row.energy_j is not None:
        lines.append(how(row))
    return "<br>".join(lines)
