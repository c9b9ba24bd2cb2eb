"""In which phase, and in which kind of work, is the gain of a comparison?"""

from __future__ import annotations

from typing import NamedTuple

from probe.compare.formats import unit_of
from probe.compare.gain import Interval, Verdict, closed
from probe.compare.model import FOUR_NAMES, Cell, Comparison, ComparisonReport, PhaseGain
from probe.model import Phase, Provenance
from probe.report.numbers import number, scaled
from probe.report.sentences import short
from probe.report.text_tables import joules as joules_text
from probe.report.text_tables import seconds as seconds_text

from ..chart_data import Chart, Column
from .style import GREY, SERIES, beside, figure, listed, plain, whiskers
from .waterfall import Part, waterfall

_MAX_WHISKER = 150.0  # percent beyond the bars
_NEGLIGIBLE = 1e-5  # of the largest
Row = list[str | float | None]  # of the table below a chart

_ADD_UP = "Bars to the right of zero are saved; grey ones may be zero; all of them add up."


def by_phase(report: ComparisonReport, comparison: Comparison) -> Chart:
    """Waterfall of what a sample saves, phase by phase, with intervals."""
    by_energy = comparison.verdict_by == "energy"
    unit = "J" if by_energy else "s"
    columns = [
        Column("phase", "phase"),
        Column("base", f"base ({unit})"),
        Column("other", f"other ({unit})"),
        Column("gain", f"saved ({unit})"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
    ]
    rows = [row for row in comparison.phases if not by_energy or row.gain_j is not None]
    if not by_energy:
        rows = [row for row in rows if row.phase != Phase.UNRESOLVED]
    refused = [row.phase for row in comparison.phases if by_energy and row.gain_j is None]
    if not rows:
        return Chart("No phase was recorded.", None, columns)
    all_phases = _phase_part(comparison.per_sample, 1.0, by_energy=by_energy)
    amounts = [_amounts(row, by_energy=by_energy) for row in rows]
    largest = max([abs(base) + abs(other) for base, other in amounts] + [abs(all_phases.gain)])
    factor, prefix = scaled(largest / 2)
    parts = [
        _phase_part(row, factor, by_energy=by_energy)
        for row, (base, other) in zip(rows, amounts, strict=True)
        if max(abs(base), abs(other)) > _NEGLIGIBLE * largest
    ]
    total = _phase_part(comparison.per_sample, factor, by_energy=by_energy)
    drawn = waterfall(parts, total._replace(name="all phases"), f"{prefix}{unit}", _number)
    caption = f"Saved per {unit_of(report)}. {_ADD_UP}"
    if refused:
        caption += f" {', '.join(refused)} cannot be told apart: they are in unresolved."
    cells = [_phase_cells(row, by_energy=by_energy) for row in rows]
    return Chart(caption, drawn, columns, cells)


def _amounts(row: PhaseGain, *, by_energy: bool) -> tuple[float, float]:
    """What a sample costs in this phase on both sides."""
    if by_energy:
        return row.base.energy_j or 0.0, row.other.energy_j or 0.0
    return row.base.time_s, row.other.time_s


def _phase_part(row: PhaseGain, factor: float, *, by_energy: bool) -> Part:
    gain = (row.gain_j or 0.0) if by_energy else row.gain_s
    interval = row.gain_j_interval if by_energy else row.gain_s_interval
    limits = None if interval is None else (interval[0] / factor, interval[1] / factor)
    verdict = row.verdict if by_energy else row.time_verdict
    return Part(plain(row.phase, 34), gain / factor, limits, verdict)


def _phase_cells(row: PhaseGain, *, by_energy: bool) -> Row:
    part = _phase_part(row, 1.0, by_energy=by_energy)
    base, other = _amounts(row, by_energy=by_energy)
    limits = part.interval or (None, None)
    return [row.phase, base, other, part.gain, *limits, str(part.verdict)]


def _number(value: float) -> str:
    return number(value).replace("-", "−")


def by_cell(comparison: Comparison) -> Chart:
    """Waterfall of the gain over stage × class, with intervals; cells add up to the total."""
    energy = comparison.energy_j
    is_measured = energy.provenance is Provenance.MEASURED and energy.gain is not None
    total = energy if is_measured else comparison.time_s
    unit, formatted = ("J", joules_text) if is_measured else ("s", seconds_text)
    columns = [
        Column("stage", "stage"),
        Column("class", "class"),
        Column("phases", "phases"),
        Column("gain", f"saved ({unit})"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
    ]
    cells = [cell for cell in comparison.cells if not is_measured or cell.energy_j is not None]
    if not cells or total.gain is None:
        why = short(comparison.reason or "nothing was recorded", 300)
        return Chart(f"Not divided by stage and class: {why}.", None, columns)
    parts = [_cell_part(cell, is_measured=is_measured) for cell in cells]
    rows: list[Row] = [
        [
            cell.stage,
            cell.class_,
            ", ".join(cell.phases),
            part.gain,
            *(part.interval or (None, None)),
            str(part.verdict),
        ]
        for cell, part in zip(cells, parts, strict=True)
    ]
    shown = [part for part in parts if abs(part.gain) > _NEGLIGIBLE * abs(total.base or 0.0)]
    whole_run = Part("the whole run", total.gain, closed(total.interval), total.verdict)
    drawn = waterfall(shown, whole_run, unit, formatted)
    sure = [part for part in parts if part.verdict is not Verdict.NO_EVIDENCE]
    if sure:
        best = max(sure, key=lambda part: abs(part.gain))
        better = "saves" if best.gain > 0 else "costs"
        caption = f"The largest part with a verdict: {best.name} {better} "
        caption += f"{formatted(abs(best.gain))}. "
    else:
        caption = "No single part has a verdict. "
    return Chart(caption + _ADD_UP, drawn, columns, rows)


def _cell_part(cell: Cell, *, is_measured: bool) -> Part:
    name = plain(f"{cell.stage}, {cell.class_}", 34)
    if is_measured:
        return Part(name, cell.energy_j or 0.0, cell.energy_j_interval, cell.verdict)
    return Part(name, cell.time_s, cell.time_s_interval, cell.time_verdict)


def by_kind(comparison: Comparison) -> Chart:
    """The gain by the paper's four kinds of phase, and by the classes of what is left."""
    columns = [
        Column("kind", "kind of phase"),
        Column("share", "share (%)"),
        Column("low", "95 % from"),
        Column("high", "to"),
    ]
    if not comparison.four:
        why = short(comparison.reason or "nothing was gained or lost for sure", 300)
        return Chart(f"Not divided by kind of phase: {why}.", None, columns)
    kinds = _kinds(comparison)
    names = [kind.name for kind in kinds]
    values = [kind.percent for kind in kinds]
    spans = [kind.interval or (kind.percent, kind.percent) for kind in kinds]
    # A whisker that says "anything" would leave nothing of the bars.
    ends = [end for span in spans for end in span]
    least = max(min(0.0, *values, *ends), min(0.0, *values) - _MAX_WHISKER)
    most = min(max(1.0, *values, *ends), max(1.0, *values) + _MAX_WHISKER)
    cut = ", some of them beyond the picture" if min(ends) < least or max(ends) > most else ""
    texts = [f"  {v:.0f} %" if round(v) else "  none" for v in values]
    drawn = figure(
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": listed(values),
                "marker": {"color": [*SERIES[:4], *[GREY] * len(kinds)][: len(kinds)]},
                "error_x": whiskers(
                    (min(high, most) - v for (_, high), v in zip(spans, values, strict=True)),
                    (v - max(low, least) for (low, _), v in zip(spans, values, strict=True)),
                ),
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "text",
                "y": names,
                "hoverinfo": "skip",
                "cliponaxis": False,
                "x": listed(
                    min(max(high, v, 0), most) for (_, high), v in zip(spans, values, strict=True)
                ),
                "text": texts,
                "textposition": "middle right",
            },
        ],
        height=110 + 30 * len(kinds),
        x=f"% of the {comparison.verdict} in {comparison.four_of}",
        margin=beside(texts),
        bargap=0.35,
        xaxis={"fixedrange": True, "zerolinewidth": 2, "range": [least - 2, most]},
        yaxis={"autorange": "reversed", "showgrid": False, "fixedrange": True},
    )
    first = max(kinds, key=lambda kind: kind.percent)
    caption = (
        f"{first.name} makes the largest part of the {comparison.verdict}: {first.percent:.0f} %. "
        f"Whiskers are 95 % intervals{cut}; the parts add up to 100 %."
    )
    if comparison.four["memory"] is None:
        caption += " Memory-bound work is not separated: record with classify=True."
    rows: list[Row] = [
        [kind.name, kind.percent, *(kind.interval or (None, None))] for kind in kinds
    ]
    return Chart(caption, drawn, columns, rows)


class Kind(NamedTuple):
    """A kind of phase: its share of the gain in percent, with the 95 % interval."""

    name: str
    percent: float
    interval: Interval | None = None


def _kinds(comparison: Comparison) -> list[Kind]:
    """The kinds that were separated, then the rest, class by class."""
    kinds = []
    for name, share in (comparison.four or {}).items():
        if share is not None and name != "rest":
            limits = (comparison.four_intervals or {}).get(name)
            interval = None if limits is None else (100 * limits[0], 100 * limits[1])
            kinds.append(Kind(FOUR_NAMES[name], 100 * share, interval))
    rest = [(name, share) for name, share in (comparison.four_rest or {}).items() if share]
    return kinds + [Kind(f"rest: {name}", 100 * share) for name, share in rest]
