"""One step as a flame graph: phases, and under them the kinds of modules that ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from probe.report.numbers import duration

from ..chart_data import Anatomy, Cell, Chart, Column, Fragment, Lane
from .style import colour, figure, listed, plain

_LABELLED = 0.03  # of the width; a narrower bar has no room for its name
_MOST_BARS = 4000


class Frame(NamedTuple):
    """A bar: milliseconds from the step's begin, and how deep it lies."""

    level: int
    name: str
    begin_ms: float
    end_ms: float


def has_modules(steps: Anatomy | None) -> bool:
    """Whether the run recorded parts of phases."""
    return steps is not None and any("/" in phase for lane in steps.lanes for phase in lane.phase)


def flame(steps: Anatomy) -> Chart:
    """The first of the steps, of the first lane: the step, its phases, their modules."""
    columns = [
        Column("level", "level"),
        Column("name", "name"),
        Column("begin_ms", "from (ms)"),
        Column("end_ms", "to (ms)"),
    ]
    zero, end = float(steps.steps_s[0]), float(steps.steps_s[1])
    lane = steps.lanes[0]
    frames = frames_of(lane, zero, end)
    step = Frame(0, f"step {steps.first_step}", 0.0, 1e3 * (end - zero))
    width = step.end_ms
    drawn = figure(
        [
            _bars(name, [f for f in (step, *frames) if f.name == name], width)
            for name in dict.fromkeys(f.name for f in (step, *frames[:_MOST_BARS]))
        ],
        height=260,
        x="ms",
        barmode="overlay",
        bargap=0,
        uniformtext={"mode": "hide", "minsize": 11},
        xaxis={"range": [0, width], "showgrid": False},
        yaxis={
            "autorange": "reversed",
            "tickvals": [0, 1, 2],
            "ticktext": ["step", "phase", "module"],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )
    spent: dict[str, float] = {}
    for frame in frames:
        if frame.level == 2:
            spent[frame.name] = spent.get(frame.name, 0.0) + frame.end_ms - frame.begin_ms
    longest = max(spent, key=lambda name: spent[name])
    caption = (
        f"Step {steps.first_step}, {duration(end - zero)}, on {lane.name}: {plain(longest, 40)} "
        f"takes {duration(spent[longest] / 1e3)} of it, most of all modules. Each bar is one "
        "call; drag to zoom."
    )
    rows: list[list[Cell]] = [
        [f.level, f.name, round(f.begin_ms, 4), round(f.end_ms, 4)] for f in (step, *frames)
    ]
    return Chart(caption, drawn, columns, rows)


def frames_of(lane: Lane, begin_s: float, end_s: float) -> list[Frame]:
    """The bars of a part of a lane: neighbours of one name are one bar."""
    frames: list[Frame] = []
    last: dict[int, int] = {}  # level → where its last bar stands
    for phase, begin, end in zip(lane.phase, lane.begin_s, lane.end_s, strict=True):
        low, high = max(float(begin), begin_s), min(float(end), end_s)
        if high <= low:
            continue
        whole, _, part = phase.partition("/")
        names = [(1, whole)] + ([(2, phase)] if part else [])
        for level, name in names:
            ms = 1e3 * (low - begin_s), 1e3 * (high - begin_s)
            place = last.get(level)
            if (
                place is not None
                and frames[place].name == name
                and (ms[0] - frames[place].end_ms < 1e-6)
            ):
                frames[place] = frames[place]._replace(end_ms=ms[1])
            else:
                last[level] = len(frames)
                frames.append(Frame(level, name, *ms))
    return frames


def _bars(name: str, frames: Sequence[Frame], width: float) -> Fragment:
    part = name.partition("/")[2]
    wide = [frame.end_ms - frame.begin_ms >= _LABELLED * width for frame in frames]
    return {
        "type": "bar",
        "orientation": "h",
        "y": [frame.level for frame in frames],
        "base": listed(frame.begin_ms for frame in frames),
        "x": listed(frame.end_ms - frame.begin_ms for frame in frames),
        "width": 0.94,
        "marker": {
            "color": "#9a9aa0" if frames[0].level == 0 else colour(name),
            "line": {"width": 0.8, "color": "#ffffff"},
        },
        "text": [plain(part or name, 18) if is_wide else "" for is_wide in wide],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": "#000000", "size": 12},
        "constraintext": "inside",
        "hovertext": [
            f"{plain(name)}<br>{duration((frame.end_ms - frame.begin_ms) / 1e3)}"
            for frame in frames
        ],
        "hoverinfo": "text",
    }
