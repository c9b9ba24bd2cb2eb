"""Places for the labels of a chart such that no two overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .style import CHARACTER_PX

# Pixels of the chart on the narrowest page: what does not overlap there overlaps on no page.
_WIDTH, _HEIGHT = 220.0, 330.0
_LINE = 20.0  # height of a line of text, in pixels


class Text(NamedTuple):
    """A text of a chart: where it is anchored, and on which side of that it is written."""

    x: float
    y: float
    words: str
    position: str  # plotly's textposition, such as "top right"
    away: float = 0.0  # pixels from the anchor, which a marker covers


class _Box(NamedTuple):
    """What a text covers, in pixels of the narrowest page from the lower left corner."""

    left: float
    right: float
    bottom: float
    top: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


class Labels:
    """The labels of a chart whose axes show ``span_x`` and ``span_y``."""

    def __init__(self, span_x: tuple[float, float], span_y: tuple[float, float]) -> None:
        self._span_x, self._span_y = span_x, span_y
        self._taken: list[_Box] = []

    def cover(self, x: float, y: float, radius: float) -> None:
        """Keep labels away from a marker of ``radius`` pixels."""
        left, bottom = self._pixels(x, y)
        self._taken.append(_Box(left - radius, left + radius, bottom - radius, bottom + radius))

    def add(self, choices: Iterable[Text]) -> Text | None:
        """The first of ``choices`` that has room inside the chart; ``None`` where none has."""
        for text in choices:
            box = self._box(text)
            inside = (
                box.left >= 0 and box.bottom >= 0 and box.right <= _WIDTH and box.top <= _HEIGHT
            )
            if inside and not any(map(box.overlaps, self._taken)):
                self._taken.append(box)
                return text
        return None

    def _pixels(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self._span_x[0]) / (self._span_x[1] - self._span_x[0])
        up = (y - self._span_y[0]) / (self._span_y[1] - self._span_y[0])
        return across * _WIDTH, up * _HEIGHT

    def _box(self, text: Text) -> _Box:
        x, y = self._pixels(text.x, text.y)
        width = CHARACTER_PX * len(text.words)
        left = x - text.away - width if "left" in text.position else x + text.away
        bottom = y - text.away - _LINE if "bottom" in text.position else y + text.away
        return _Box(left, left + width, bottom, bottom + _LINE)
