"""Lines of equal energy × delay product, with labels that overlap no other text."""

from __future__ import annotations

import numpy as np

from ..chart_data import Fragment
from .label_places import Labels, Text
from .style import GREY, listed

_FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
_POINTS = 60  # of a line
_LEAST_POINTS = 8  # of them inside the picture


def edp_lines(
    base: tuple[float, float] | None,
    span_x: tuple[float, float],
    span_y: tuple[float, float],
    labels: Labels,
) -> list[Fragment]:
    """Dotted lines for multiples of the base's energy × delay.

    ``base`` is the time and energy of the base. ``labels`` holds the labels that are placed
    already. If a line's label has no free place, it is shown only as hover text.
    """
    if base is None:
        return []
    x = np.linspace(max(span_x[0], 1e-9), span_x[1], _POINTS)
    lines: list[Fragment] = []
    for factor in _FACTORS:
        y = base[0] * base[1] * factor / x
        inside = (y >= span_y[0]) & (y <= span_y[1])
        if inside.sum() < _LEAST_POINTS:
            continue
        words = f"{factor:g} × the base's EDP"
        at, up = x[inside], y[inside]
        lines.append(
            {"type": "scatter", "mode": "lines", "x": listed(at), "y": listed(up),
             "hoverinfo": "text", "hovertext": words,
             "line": {"color": GREY, "width": 1, "dash": "dot"}}
        )  # fmt: skip
        label = labels.add(
            Text(float(at[place]), float(up[place]), words, "bottom left")
            for place in _from_the_middle(len(at))
        )
        if label is not None:
            lines.append(
                {"type": "scatter", "mode": "text", "x": [label.x], "y": [label.y],
                 "textposition": label.position, "text": [words], "hoverinfo": "skip",
                 "textfont": {"size": 11, "color": GREY}}
            )  # fmt: skip
    return lines


def _from_the_middle(count: int) -> list[int]:
    """Places of a line in the order in which a label is tried: a little after the middle first."""
    return sorted(range(count), key=lambda place: abs(place - int(0.6 * count)))
