"""Places for the labels of a chart such that no two overlap, however wide the page is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .style import text_px

# Pixels of the chart's plot on the narrowest and on the widest page.
_WIDTHS, _HEIGHTS = (220.0, 3400.0), (330.0, 380.0)
LINE = 17.0  # height of a line of text, in pixels
LABEL_GAP = 4.0  # pixels between what is labelled and its label
_NEARER = 2.0  # pixels by which a text may be nearer to its anchor than it was asked to


class Text(NamedTuple):
    """A text of a chart: where it is anchored, and on which side of that it is written."""

    x: float
    y: float
    words: str
    position: str  # plotly's textposition, such as "top right"
    away: float = 0.0  # pixels from the anchor, which a marker covers


class _Extent(NamedTuple):
    """What a box covers along one axis: pixels before and after its anchor."""

    anchor: float  # as a share of the axis
    low: float
    high: float

    def meets(self, other: _Extent, lengths: tuple[float, float]) -> bool:
        """Whether both have a pixel in common at any length of the axis from least to most."""
        # The longer the axis, the farther apart are the anchors, and texts between them may meet.
        near, far = sorted((self.anchor - other.anchor) * length for length in lengths)
        return near < other.high - self.low and far > other.low - self.high

    def is_inside(self, lengths: tuple[float, float]) -> bool:
        least = lengths[0]
        return self.anchor * least + self.low >= 0 and self.anchor * least + self.high <= least


class _Box(NamedTuple):
    """What a text or a marker covers."""

    across: _Extent
    up: _Extent

    def overlaps(self, other: _Box) -> bool:
        return self.across.meets(other.across, _WIDTHS) and self.up.meets(other.up, _HEIGHTS)


class Labels:
    """The labels of a chart whose axes show ``span_x`` and ``span_y``."""

    def __init__(self, span_x: tuple[float, float], span_y: tuple[float, float]) -> None:
        self._span_x, self._span_y = span_x, span_y
        self._taken: list[_Box] = []

    def cover(self, x: float, y: float, radius: float) -> None:
        """Keep labels away from a marker of ``radius`` pixels."""
        across, up = self.shares(x, y)
        self._taken.append(_Box(_Extent(across, -radius, radius), _Extent(up, -radius, radius)))

    def add(self, choices: Iterable[Text]) -> Text | None:
        """The first of ``choices`` that has room inside the chart; ``None`` where none has."""
        for text in choices:
            box = self._box(text)
            inside = box.across.is_inside(_WIDTHS) and box.up.is_inside(_HEIGHTS)
            if inside and not any(map(box.overlaps, self._taken)):
                self._taken.append(box)
                return text
        return None

    def shares(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is, as shares of the chart's width and height."""
        across = (x - self._span_x[0]) / (self._span_x[1] - self._span_x[0])
        up = (y - self._span_y[0]) / (self._span_y[1] - self._span_y[0])
        return across, up

    def _box(self, text: Text) -> _Box:
        across, up = self.shares(text.x, text.y)
        return _Box(
            _beside(across, text.away, text_px(text.words), before="left" in text.position),
            _beside(up, text.away, LINE, before="bottom" in text.position),
        )


def _beside(anchor: float, away: float, size: float, *, before: bool) -> _Extent:
    near, far = away - _NEARER, away + size
    return _Extent(anchor, -far, -near) if before else _Extent(anchor, near, far)


class Place(NamedTuple):
    """Where a label stands: in which row from the top, and on which side of its anchor."""

    row: int
    is_right: bool


def in_rows(anchors: Sequence[float], texts: Sequence[str], rows: int) -> list[Place | None]:
    """Places of labels at the top of a chart, such that no two overlap on any page.

    ``anchors`` are shares of the chart's width, in rising order. A label stands right of its
    anchor where that leaves it inside the chart, in the first of ``rows`` that has room; one that
    has room in none is ``None``.
    """
    ends = [-LABEL_GAP] * rows  # pixels, on the narrowest page
    places: list[Place | None] = []
    for anchor, text in zip(anchors, texts, strict=True):
        at, size = anchor * _WIDTHS[0], text_px(text)
        is_right = at + LABEL_GAP + size <= _WIDTHS[0]
        begin = at + LABEL_GAP if is_right else at - LABEL_GAP - size
        row = next((k for k, end in enumerate(ends) if begin >= end + LABEL_GAP), None)
        if row is not None:
            ends[row] = begin + size
        places.append(None if row is None else Place(row, is_right))
    return places
