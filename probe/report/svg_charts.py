"""Charts of a report as SVG, drawn by matplotlib: small, static, readable without a network."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..model import Provenance
from .model import PhaseRow, Report
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
_DEVICES, _ROWS, _LONGEST = 4, 12, 28


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG element with what it says in words."""

    title: str
    caption: str
    svg: str


def charts(report: Report) -> list[Chart]:
    """Those for which the run has data.

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
    devices = [
        d
        for d in dict.fromkeys(r.device for r in report.phases)
        if any(r.energy_j is not None for r in report.phases if r.device == d)
    ]
    if not devices:
        return None
    shown = devices[:_DEVICES]
    rows = {
        d: sorted((r for r in report.phases if r.device == d), key=lambda r: -(r.energy_j or 0.0))[
            :_ROWS
        ]
        for d in shown
    }
    heights = [len(rows[d]) for d in shown]

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, device in zip(axes, shown, strict=True):
            _energy_of(axis, device, rows[device])

    caption = (
        "Energy of each phase with its 95 % interval; open ranges are bounds of what cannot "
        "be told apart, hatched bars a model's."
    )
    if len(devices) > len(shown):
        caption += f" {len(devices) - len(shown)} more devices stand in the tables."
    return Chart(
        "Energy by phase", caption, _svg(7.2, 0.7 * len(shown) + 0.26 * sum(heights), draw)
    )


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
    rows = report.power[:8]
    if not rows:
        return None

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for place, row in enumerate(rows):
            watts = [float("nan") if w is None else w for w in row.power_w]
            edges = [row.begin_s + i * row.step_s for i in range(len(watts) + 1)]
            modelled = row.provenance is Provenance.MODELLED
            axis.stairs(
                watts,
                edges,
                baseline=None,
                linewidth=1.1,
                color=list(_COLOURS.values())[place % 7],
                linestyle="--" if modelled else "-",
                label=_name(row.device) + (" (model)" if modelled else ""),
            )
        axis.set_xlabel("s")
        axis.set_ylabel("W")
        axis.set_ylim(bottom=0)
        axis.legend(loc="lower right", ncols=4, frameon=False)

    step = duration(rows[0].step_s)
    return Chart(
        "Power over time",
        f"Mean power in steps of {step}; a gap is a time without any "
        "reading, a broken line a model's.",
        _svg(7.2, 2.4, draw),
    )


def _anatomy(report: Report) -> Chart | None:
    steps = report.run.steps
    if not steps or not report.phases:
        return None
    device = report.phases[0].device
    rows = [
        r
        for r in report.phases
        if r.device == device and r.time_s > 0 and r.phase not in ("unattributed", "unresolved")
    ]

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
