"""Charts of a report as SVG, drawn by matplotlib: small, static, readable without a network."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..errors import UsageError
from ..model import Provenance
from .all_devices import MODELLED, all_devices
from .group_document import labels
from .group_model import GroupReport
from .model import PhaseRow, PowerRow, Report
from .numbers import duration, energy
from .sentences import short

# Okabe and Ito's colours, which people who see few colours can tell apart.
_COLOURS = {
    "forward": "#0072B2",
    "backward": "#D55E00",
    "optimizer": "#009E73",
    "data": "#E69F00",
    "communication": "#CC79A7",
    "recompute": "#56B4E9",
    "eval": "#8B6F47",
    "other": "#999999",
    "unattributed": "#BBBBBB",
    "unresolved": "#BBBBBB",
}
_MORE = ("#56B4E9", "#F0E442", "#CC79A7", "#8B6F47", "#6A51A3", "#1B7837")
_ROWS, _LINES, _LONGEST = 12, 3, 28
_TRAININGS = 40  # rows of the chart of a group


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG element with what it says in words."""

    title: str
    caption: str
    svg: str


def charts(report: Report | GroupReport) -> list[Chart]:
    """Those for which the run has data; of a group, when each of its trainings ran.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise UsageError("charts need matplotlib: pip install 'phasewatt[reports]'") from None
    with matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "phasewatt",
            "font.family": "sans-serif",
            "font.size": 9,
            "text.parse_math": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.constrained_layout.use": True,
        }
    ):
        if isinstance(report, GroupReport):
            return [_trainings(report)] if report.group.members else []
        drawn = [draw(report) for draw in (_energy, _power, _anatomy)]
    return [chart for chart in drawn if chart is not None]


def _svg(width: float, height: float, draw: Callable[[Any], None]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    draw(figure)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _name(text: str) -> str:
    return short(text, _LONGEST)


def _colour(phase: str, place: int) -> str:
    return _COLOURS.get(phase, _MORE[place % len(_MORE)])


def _energy(report: Report) -> Chart | None:
    with_energy = [
        table
        for table in all_devices(report)
        if any(row.energy_j is not None or row.bounds_j is not None for row in table.phases)
    ]
    if not with_energy:
        return None
    table = with_energy[0]
    rows = sorted(table.phases, key=lambda row: -(row.energy_j or 0.0))[:_ROWS]
    caption = (
        "Energy of each phase with its 95 % interval; open ranges are bounds of phases that "
        "the meter cannot separate."
    )
    if table.kind == MODELLED:
        caption = "Energy of each phase by a model: no meter was found."
    elif len(table.devices) > 1:
        caption += f" The sum of {len(table.devices)} devices."
    name = table.devices[0] if len(table.devices) == 1 else f"{len(table.devices)} devices"

    def draw(figure: Any) -> None:
        _energy_of(figure.subplots(), name, rows)

    return Chart("Energy by phase", caption, _svg(7.2, 0.7 + 0.26 * len(rows), draw))


def _energy_of(axis: Any, device: str, rows: list[PhaseRow]) -> None:
    for place, row in enumerate(rows):
        if row.energy_j is None:
            if row.bounds_j:
                low, high = row.bounds_j
                axis.barh(
                    place,
                    high - low,
                    left=low,
                    height=0.5,
                    facecolor="none",
                    edgecolor="#777777",
                    linestyle=":",
                )
            continue
        modelled = row.provenance is Provenance.MODELLED
        axis.barh(
            place,
            row.energy_j,
            height=0.62,
            color=_colour(row.phase, place),
            alpha=0.45 if modelled else 0.9,
            hatch="///" if modelled else None,
        )
        low, high = row.energy_j_interval or (row.energy_j, row.energy_j)
        if row.energy_j_interval:
            axis.plot([low, high], [place, place], color="#222222", linewidth=1.2)
            axis.plot([low, high], [place, place], "|", color="#222222", markersize=6)
        axis.annotate(
            energy(row.energy_j, (high - low) / 2),
            (max(high, row.energy_j), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axis.set_yticks(range(len(rows)), [_name(r.phase) for r in rows])
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_xlabel(f"J on {_name(device)}")


def _power(report: Report) -> Chart | None:
    metered = [row for row in report.power if row.provenance is not Provenance.MODELLED]
    rows = metered or list(report.power)
    if not rows:
        return None
    step = duration(rows[0].step_s)
    of = "by a model" if not metered else "a gap is a time without any reading"
    if len(rows) > _LINES:
        return Chart(
            "Power over time",
            f"Mean power in steps of {step}: the middle one of {len(rows)} devices, and from the "
            f"least to the most; {of}.",
            _svg(7.2, 2.4, lambda figure: _band(figure.subplots(), rows)),
        )
    return Chart(
        "Power over time",
        f"Mean power in steps of {step}; {of}.",
        _svg(7.2, 2.4, lambda figure: _curves(figure.subplots(), rows)),
    )


def _watts(row: PowerRow) -> list[float]:
    return [float("nan") if value is None else value for value in row.power_w]


def _edges(row: PowerRow) -> list[float]:
    return [row.begin_s + place * row.step_s for place in range(len(row.power_w) + 1)]


def _curves(axis: Any, rows: list[PowerRow]) -> None:
    for place, row in enumerate(rows):
        axis.stairs(
            _watts(row),
            _edges(row),
            baseline=None,
            linewidth=1.1,
            color=list(_COLOURS.values())[place % 7],
            linestyle="--" if row.provenance is Provenance.MODELLED else "-",
            label=_name(row.device) + (" (model)" if row.provenance is Provenance.MODELLED else ""),
        )
    _power_axis(axis)
    axis.legend(loc="lower right", ncols=4, frameon=False)


def _band(axis: Any, rows: list[PowerRow]) -> None:
    """The median of the devices in each bin, and the band from the least to the most."""
    longest = max(rows, key=lambda row: len(row.power_w))
    bins: list[list[float]] = [[] for _ in longest.power_w]
    for row in rows:
        offset = round((row.begin_s - longest.begin_s) / longest.step_s)
        for place, value in enumerate(row.power_w):
            if value is not None and 0 <= place + offset < len(bins):
                bins[place + offset].append(value)
    nothing = float("nan")
    edges = _edges(longest)
    least = [min(values, default=nothing) for values in bins]
    most = [max(values, default=nothing) for values in bins]
    axis.stairs(most, edges, baseline=least, fill=True, color=_COLOURS["forward"], alpha=0.25)
    middle = [median(values) if values else nothing for values in bins]
    axis.stairs(middle, edges, baseline=None, linewidth=1.3, color=_COLOURS["forward"])
    _power_axis(axis)


def _power_axis(axis: Any) -> None:
    axis.set_xlabel("s")
    axis.set_ylabel("W")
    axis.set_ylim(bottom=0)


def _anatomy(report: Report) -> Chart | None:
    steps = report.run.steps
    if not steps or not report.phases:
        return None
    tables = all_devices(report)
    rows = [row for row in tables[0].phases if row.time_share and row.phase != "unattributed"]

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        left = 0.0
        total_s = sum(r.time_s for r in rows) or 1.0
        for place, row in enumerate(rows):
            width = 1e3 * row.time_s / steps
            axis.barh(
                0, width, left=left, height=0.6, color=_colour(row.phase, place), edgecolor="white"
            )
            if row.time_s > 0.08 * total_s:
                axis.text(
                    left + width / 2, 0, _name(row.phase), ha="center", va="center", color="white"
                )
            left += width
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set_xlabel("ms per step")

    each = sum(r.time_s for r in rows) / steps
    return Chart("A step", f"Where the {duration(each)} of a mean step go.", _svg(7.2, 1.0, draw))


def _trainings(report: GroupReport) -> Chart:
    group = report.group
    rows = group.members[:_TRAININGS]
    names = labels(rows)

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for place, member in enumerate(rows):
            axis.barh(
                place,
                member.duration_s,
                left=member.begin_s,
                height=0.62,
                color=_COLOURS["forward" if member.status == "finished" else "backward"],
            )
        axis.set_yticks(
            range(len(rows)),
            [_name(f"{m.number} {name}") for m, name in zip(rows, names, strict=True)],
        )
        axis.invert_yaxis()
        axis.set_xlim(0, group.duration_s)
        axis.set_xlabel("s after the command began")

    which = (
        f"the first {len(rows)} of {len(group.members)}"
        if len(group.members) > len(rows)
        else (f"all {len(rows)}")
    )
    odd = sorted({member.status for member in rows} - {"finished"})
    caption = f"When each training ran, {which}"
    caption += f"; orange: {', '.join(odd)}." if odd else "."
    return Chart("Trainings over time", caption, _svg(7.2, 0.7 + 0.26 * len(rows), draw))
