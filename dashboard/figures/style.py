"""How charts look: a frame, and colours that are distinct on white and dark for all eyes.

Figures carry no theme: text, axes and ground take the page's colours from the style sheet, and a
downloaded image is dark on white. Measured is solid, estimated lighter with whiskers, a model's
hatched or broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np

from probe.report.model import JsonValue
from probe.report.sentences import short

from ..chart_data import Figure, Floats, Fragment

# About the width of a character of a chart's text, and of a capital or an ideograph.
_CHARACTER_PX, _WIDE_PX = 7.5, 12.0

# After Okabe and Ito, shifted so that each has a contrast of 3 to 1 on white and on #1c1c1e.
BLUE, VERMILION, GREEN, PURPLE = "#2a80b9", "#d55e00", "#00916a", "#b8659a"
OCHRE, BROWN, GREY = "#b07d00", "#94734a", "#808080"
PHASES = {
    "forward": BLUE,
    "backward": VERMILION,
    "optimizer": GREEN,
    "communication": PURPLE,
    "data": OCHRE,
    "recompute": "#c2685f",
    "eval": "#5f8f3e",
    "inference": "#4a8fa3",
    "checkpoint": BROWN,
    "startup": "#8a7f4d",
    "other": GREY,
    "unattributed": "#8f8f98",
    "unresolved": "#8f8f98",
}
SERIES = (BLUE, VERMILION, GREEN, PURPLE, OCHRE, BROWN, GREY)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
BAND = "rgba(42,128,185,0.22)"
GAIN, LOSS, UNSURE = GREEN, VERMILION, GREY
# Of heat maps: cividis, made for people who see few colours.
SCALE = "Cividis"


def colour(phase: str) -> str:
    """A phase keeps its colour on every page; parts of a phase have the whole's."""
    parent = phase.partition("/")[0]
    if parent in PHASES:
        return PHASES[parent]
    return SERIES[sum(map(ord, parent)) % (len(SERIES) - 1)]


def figure(
    data: Sequence[Fragment], *, height: int, x: str = "", y: str = "", **layout: JsonValue
) -> Figure:
    """A plotly figure in the frame of all charts; axis titles include their units."""
    frame: dict[str, JsonValue] = {
        "height": height,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1d1d1f"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
        "uirevision": "kept",
        "modebar": {"orientation": "v"},
        "xaxis": axis(x),
        "yaxis": axis(y),
    }
    for key, value in layout.items():
        old = frame.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            frame[key] = {**old, **value}
        else:
            frame[key] = value
    return {"data": list(data), "layout": frame}


def axis(title: str, **more: JsonValue) -> Fragment:
    """An axis with a light grid and room for its labels."""
    return {
        "title": {"text": title, "standoff": 8},
        "automargin": True,
        "gridcolor": "#e3e3e6",
        "zerolinecolor": "#b9b9be",
        "linecolor": "#b9b9be",
        "ticks": "",
        **more,
    }


def legend() -> Fragment:
    """Names above a chart, where they lie on no data."""
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}


def whiskers(above: Iterable[float], below: Iterable[float]) -> Fragment:
    """Error bars of horizontal bars: distances to the ends of each interval."""
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1.6,
        "width": 5,
        "color": "#6b6b70",
        "array": listed(above),
        "arrayminus": listed(below),
    }


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Time since a run's begin, in the unit that suits its length."""

    seconds: float  # in one unit
    unit: str

    @classmethod
    def of(cls, duration_s: float) -> TimeScale:
        """The scale for a run of this length."""
        if duration_s <= 600:
            return cls(1.0, "s")
        if duration_s <= 3 * 3600:
            return cls(60.0, "min")
        if duration_s <= 4 * 86400:
            return cls(3600.0, "h")
        return cls(86400.0, "days")

    def axis(self, span: tuple[float, float] | None = None, **more: JsonValue) -> Fragment:
        """The axis of time, with the range ``span`` if only a part of the run is shown."""
        if span is not None:
            more |= {"range": [self.at(span[0]), self.at(span[1])], "autorange": False}
        return axis(f"time since the start ({self.unit})", **more)

    def at(self, seconds: float) -> float:
        """Seconds in the unit."""
        return seconds / self.seconds

    def values(self, seconds: Floats) -> list[float | None]:
        """Seconds in the unit, rounded to 7 digits: a microsecond in a minute."""
        return [None if s != s else round(float(s) / self.seconds, 7) for s in seconds]


def plain(text: str | int, longest: int = 60) -> str:
    """A name for plotly: one short line, its markup escaped."""
    return short(text, longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text_px(words: str) -> float:
    """About the width of a chart's text."""
    wide = sum(letter.isupper() or east_asian_width(letter) in "WF" for letter in words)
    return _CHARACTER_PX * (len(words) - wide) + _WIDE_PX * wide


def beside(texts: Iterable[str]) -> Fragment:
    """Margins of a chart whose texts begin at most at its right end, and are whole at any width."""
    return {"r": round(max(map(text_px, texts), default=0.0)) + 8}


def listed(values: Iterable[float | None]) -> list[float | None]:
    """Numbers for JSON, to 6 digits; values that are not finite become None."""
    if isinstance(values, np.ndarray):
        return _listed(np.asarray(values, np.float64))
    return [
        None
        if value is None or value != value or abs(value) == float("inf")
        else float(f"{value:.6g}")
        for value in values
    ]


def _listed(values: Floats) -> list[float | None]:
    """The same of many at once; powers of ten are exact, so the digits are those of the text."""
    finite = np.isfinite(values)
    size = np.abs(np.where(finite & (values != 0), values, 1.0))
    places = 5 - np.floor(np.log10(size))
    up, down = 10.0 ** np.clip(places, 0, 22), 10.0 ** np.clip(-places, 0, 22)
    rounded = np.rint(np.where(finite, values, 0.0) * up / down) / up * down
    if finite.all():
        return list(rounded.tolist())
    return [
        value if is_finite else None
        for value, is_finite in zip(rounded.tolist(), finite, strict=True)
    ]
