"""Lines of constraints on the axes of a chart, with labels that overlap no other text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from probe.compare.objective.model import Limit
from probe.compare.objective.quantities import label, said
from probe.report.model import JsonValue

from ..chart_data import Fragment
from .label_places import Labels, Text
from .style import GREY, plain

_PLACES = 12  # along a line where its label may stand


def limit_lines(
    limits: Iterable[tuple[str, float, Limit]],
    spans: Mapping[str, tuple[float, float]],
    labels: Labels,
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Broken lines as shapes, and their labels as annotations.

    ``limits`` are the axis, "x" or "y", where on it, and the constraint; ``spans`` are what the
    axes show; ``labels`` holds what is placed already. A label without room is left out: the
    caption names all constraints.
    """
    shapes: list[JsonValue] = []
    notes: list[JsonValue] = []
    for axis, at, limit in limits:
        other = "y" if axis == "x" else "x"
        line: Fragment = {"color": GREY, "width": 1.5, "dash": "dash"}
        shapes.append({"type": "line", f"{axis}0": at, f"{axis}1": at, f"{other}0": 0,
                       f"{other}1": 1, f"{other}ref": "paper", "line": line})  # fmt: skip
        if not spans[axis][0] <= at <= spans[axis][1]:
            continue
        text = labels.add(_choices(limit, axis, at, spans[other]))
        if text is not None:
            across, up = labels.shares(text.x, text.y)
            notes.append(
                {"text": text.words, "showarrow": False, axis: at,
                 other: up if axis == "x" else across, f"{other}ref": "paper",
                 "xanchor": "right" if "left" in text.position else "left",
                 "yanchor": "top" if "bottom" in text.position else "bottom"}
            )  # fmt: skip
    return shapes, notes


def _choices(limit: Limit, axis: str, at: float, other: tuple[float, float]) -> Iterator[Text]:
    """Labels to try beside a line, from its upper or right end on."""
    words = said(limit)
    # The title of the axis names the quantity, too.
    for shown in (plain(words), plain(words.removeprefix(label(limit.quantity)))):
        for end in np.linspace(other[1], other[0], _PLACES).tolist():
            x, y = (at, end) if axis == "x" else (end, at)
            for height in ("top", "bottom"):
                for side in ("right", "left"):
                    yield Text(x, y, shown, f"{height} {side}")
