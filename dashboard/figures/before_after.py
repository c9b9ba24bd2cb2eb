"""What each phase cost before and after, side by side."""

from __future__ import annotations

from probe.compare.formats import unit_of
from probe.compare.model import Comparison, ComparisonReport, PhaseGain
from probe.model import Phase
from probe.report.numbers import scaled

from ..chart_data import Cell, Chart, Column, Fragment
from .style import GREY, colour, figure, legend, listed, plain, whiskers

_NEGLIGIBLE = 1e-3  # of the largest


def before_after(report: ComparisonReport, comparison: Comparison) -> Chart:
    """Two bars a phase; the whisker on the second is the interval of the difference."""
    by_energy = comparison.verdict_by == "energy"
    unit = "J" if by_energy else "s"
    columns = [
        Column("phase", "phase"),
        Column("base", f"before ({unit})"),
        Column("other", f"after ({unit})"),
        Column("low", "after, 95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
    ]
    rows = [
        row
        for row in comparison.phases
        if (row.gain_j is not None if by_energy else row.phase != Phase.UNRESOLVED)
    ]
    if not rows:
        return Chart("No phase was recorded on both sides.", None, columns)
    amounts = [_amounts(row, by_energy=by_energy) for row in rows]
    largest = max(max(pair) for pair in amounts) or 1.0
    factor, prefix = scaled(largest)
    table: list[list[Cell]] = []
    shown: list[tuple[PhaseGain, float, float, tuple[float, float] | None]] = []
    for row, (before, after) in zip(rows, amounts, strict=True):
        saved = row.gain_j_interval if by_energy else row.gain_s_interval
        limits = None if saved is None else (max(0.0, before - saved[1]), before - saved[0])
        verdict = row.verdict if by_energy else row.time_verdict
        table.append([row.phase, before, after, *(limits or (None, None)), str(verdict)])
        if max(before, after) > _NEGLIGIBLE * largest:
            shown.append((row, before, after, limits))
    names = [plain(row.phase, 34) for row, *_ in shown]
    after_bar: Fragment = {
        "type": "bar",
        "orientation": "h",
        "name": plain(f"after: {comparison.other.name}", 40),
        "y": names,
        "x": listed(after / factor for _, _, after, _ in shown),
        "marker": {"color": [colour(row.phase) for row, *_ in shown]},
        "error_x": whiskers(
            ((lim[1] - after) / factor if lim else 0.0 for _, _, after, lim in shown),
            ((after - lim[0]) / factor if lim else 0.0 for _, _, after, lim in shown),
        ),
        "hovertemplate": f"%{{y}}: %{{x:.4g}} {prefix}{unit}<extra>after</extra>",
    }
    before_bar: Fragment = {
        "type": "bar",
        "orientation": "h",
        "name": plain(f"before: {report.base.name}", 40),
        "y": names,
        "x": listed(before / factor for _, before, _, _ in shown),
        "marker": {"color": GREY, "opacity": 0.75},
        "hovertemplate": f"%{{y}}: %{{x:.4g}} {prefix}{unit}<extra>before</extra>",
    }
    drawn = figure(
        [before_bar, after_bar],
        height=110 + 48 * len(shown),
        x=f"{prefix}{unit} per {unit_of(report)}",
        barmode="group",
        bargap=0.3,
        xaxis={"fixedrange": True, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
        showlegend=True,
        legend=legend(),
    )
    cheapest = max(zip(rows, amounts, strict=True), key=lambda pair: pair[1][0] - pair[1][1])
    phase, (before, after) = cheapest[0].phase, cheapest[1]
    caption = f"Per {unit_of(report)}, before above after."
    if before > after:
        percent = 100 * (before - after) / before
        caption += f" {plain(phase, 40)} became {percent:.0f} % cheaper, most of all in {unit}."
    if any(limits for *_, limits in shown):
        caption += " Whiskers are 95 % intervals of the difference."
    else:
        caption += " One run a side: no interval."
    return Chart(caption, drawn, columns, table)


def _amounts(row: PhaseGain, *, by_energy: bool) -> tuple[float, float]:
    if by_energy:
        return row.base.energy_j or 0.0, row.other.energy_j or 0.0
    return row.base.time_s, row.other.time_s
